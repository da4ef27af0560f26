//! The answers that are kept for idempotency keys.

use std::sync::Arc;

use mainstay_core::time;
use mainstay_core::{Error, Result};
use mainstay_state::actor::{ActorWrites, Answer as StoredAnswer};

use crate::actor::Seal;
use crate::actor::gate::Output;
use crate::actor::site::Site;
use crate::call::contract::Reply;
use crate::call::finished::Answer;

/// The answer that a call with this key was given before.
pub(super) fn known_answer<R: Reply>(site: &Site, key: &str, method: &str) -> Result<Option<R>> {
    let Some(answer) = site.gate.answer(site, key)? else { return Ok(None) };
    if answer.expires <= time::wall() {
        return Ok(None);
    }
    if answer.method != method {
        return Err(Error::invalid(format!(
            "idempotency key {key:?} of {site} was used for `{}` before, and now for `{method}`: use another key",
            answer.method
        )));
    }
    R::decode(&answer.reply).map(Some).map_err(|error| {
        let text =
            format!("the answer to the first call of {site}.{method} with idempotency key {key:?} cannot be read");
        Error::new(error.kind(), text).with_source(error)
    })
}

/// What a call with a key is told whose answer is given after the turn.
pub(super) fn kept_for_nobody(site: &Site, method: &str) -> Error {
    Error::invalid(format!(
        "`{method}` of {site} answers later, and so its answer cannot be kept with the turn: call it without an idempotency key"
    ))
}

/// Keeps the answer with what the turn has changed. When that is durable, whoever removes it one day is told of it.
pub(super) fn record_answer<R: Reply>(
    site: &Arc<Site>,
    key: Option<&str>,
    method: &str,
    answer: &Answer<R>,
    writes: &mut Option<Box<ActorWrites>>,
    outputs: &mut Vec<Output>,
) -> Result<()> {
    let Some(key) = key else { return Ok(()) };
    let Answer::Now(reply) = answer else {
        return Err(kept_for_nobody(site, method));
    };
    let expires = time::wall().saturating_add(site.hall.settings.idempotency_retention);
    let answer = StoredAnswer { method: method.to_owned(), reply: reply.encode()?.into(), expires };
    Seal { site, writes }.writes().put_answer(key, answer)?;
    let hall = site.hall.clone();
    outputs.push(Box::new(move |turn| {
        if turn.is_ok() {
            hall.expiry.due_at(expires);
        }
    }));
    Ok(())
}
