//! Saving in the middle of a turn.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use mainstay_core::{Error, Result};

use crate::actor::gate;
use crate::actor::site::Site;
use crate::actor::{Actor, ActorOpening, Seal};
use crate::call::current;

/// Commits what an actor has changed so far in its turn.
pub(crate) async fn save<T: Actor>(actor: &mut T, site: &Arc<Site>) -> Result<()> {
    let result = commit(actor, site).await;
    if result.is_err() {
        actor.restore(&ActorOpening { site, is_undone: true })?;
        current::refresh();
    }
    result
}

async fn commit<T: Actor>(actor: &mut T, site: &Arc<Site>) -> Result<()> {
    let mut writes = current::take_writes();
    let sealed = actor.seal(&mut Seal { site, writes: &mut writes });
    let outputs = current::take_outputs();
    if let Err(error) = sealed {
        // What was to leave stands on what is not saved.
        outputs.into_iter().for_each(|output| output(Err(Error::new(error.kind(), error.to_string()))));
        return Err(error);
    }
    let mut outputs = Some(outputs);
    let hold = poll_fn(|cx| {
        Poll::Ready(gate::submit(site, current::failures(), writes.take(), outputs.take().unwrap_or_default(), cx))
    })
    .await;
    match hold {
        Some(hold) => hold.opened().await,
        None => Ok(()),
    }
}
