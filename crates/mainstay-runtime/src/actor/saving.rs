//! Saving in the middle of a turn.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use mainstay_core::{Error, Result};

use crate::actor::gate;
use crate::actor::site::Site;
use crate::actor::{Actor, ActorOpening, Seal};
use crate::call::current::{self, TurnKind};

/// Commits what an actor has changed so far in its turn.
pub(crate) async fn save<T: Actor>(actor: &mut T, site: &Arc<Site>) -> Result<()> {
    if current::kind() == Some(TurnKind::Deactivation) {
        return Err(current::leaving(site));
    }
    if current::changed(|writes| writes.is_deleted().then_some(())).is_some() {
        return Err(Error::invalid(format!("{site} is deleted with this turn, and there is nothing to save of it")));
    }
    let result = commit(actor, site).await;
    if result.is_err() {
        actor.restore(&ActorOpening { site, is_undone: true })?;
        current::refresh();
    }
    result
}

async fn commit<T: Actor>(actor: &mut T, site: &Arc<Site>) -> Result<()> {
    let mut writes = current::take_writes();
    actor.seal(&mut Seal { site, writes: &mut writes })?;
    let mut outputs = Some(current::take_outputs());
    let hold = poll_fn(|cx| {
        Poll::Ready(gate::submit(site, current::failures(), writes.take(), outputs.take().unwrap_or_default(), cx))
    })
    .await;
    match hold {
        Some(hold) => hold.opened().await,
        None => Ok(()),
    }
}
