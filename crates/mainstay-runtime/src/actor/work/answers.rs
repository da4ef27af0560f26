//! The answers that are kept for idempotency keys.

use std::sync::Arc;

use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::{ActorWrites, Answer as StoredAnswer};

use crate::actor::Seal;
use crate::actor::actor_shared::ActorShared;
use crate::actor::gate::Output;
use crate::call::arrival::Method;
use crate::call::contract::Reply;
use crate::call::finished::MethodAnswer;
use crate::call::idempotency::CallKey;

/// The answer that the same call was given before.
pub(super) fn known_answer<R: Reply>(
    shared: &ActorShared,
    call: &CallKey,
    method: &'static Method,
) -> Result<Option<R>> {
    let key = &*call.key;
    let Some(answer) = shared.gate.answer(shared, key)? else { return Ok(None) };
    if answer.expires <= time::wall() {
        return Ok(None);
    }
    refuse_another(shared, call, method, &answer)?;
    R::decode(&answer.reply).map(Some).map_err(|error| {
        let text = format!(
            "the answer to the first call of {shared}.{} with idempotency key {key:?} cannot be read",
            method.name()
        );
        Error::new(error.kind(), text).with_source(error)
    })
}

/// Refuses a key that was used for another call. What an earlier build has not recorded is not compared.
fn refuse_another(shared: &ActorShared, call: &CallKey, method: &'static Method, answer: &StoredAnswer) -> Result<()> {
    let (key, interface) = (&*call.key, answer.interface.as_deref());
    let other = if answer.method != method.name() || interface.is_some_and(|interface| interface != method.interface())
    {
        let before =
            interface.map_or_else(|| answer.method.clone(), |interface| format!("{interface}::{}", answer.method));
        format!("was used for `{before}` before, and now for `{method:?}`")
    } else if let Some(before) = answer.arguments
        && before != call.arguments
    {
        format!(
            "was used for `{method:?}` with other arguments before (their fingerprint is {before:?}, and now {:?})",
            call.arguments
        )
    } else {
        return Ok(());
    };
    let text =
        format!("idempotency key {key:?} of {shared} {other}: nothing happened, use another key for another call");
    Err(Error::new(ErrorKind::Conflict, text))
}

/// Refuses a call with a key whose answer there is no room for, before it runs.
pub(super) fn refuse_if_full(shared: &ActorShared) -> Result<()> {
    let (kept, keys_max) = (shared.gate.tally.answers(shared)?, shared.partition.settings.idempotency_keys_max);
    if kept < keys_max {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Overloaded,
        format!(
            "{shared} keeps {kept} answers for idempotency keys, and idempotency_keys_max is {keys_max}: nothing happened; retry \
             when some have expired, or shorten idempotency_retention, or raise idempotency_keys_max"
        ),
    ))
}

/// What a call with a key is told whose answer is given after the turn.
pub(super) fn kept_for_nobody(shared: &ActorShared, method: &str) -> Error {
    Error::invalid(format!(
        "`{method}` of {shared} answers later, and so its answer cannot be kept with the turn: call it without an idempotency key"
    ))
}

/// Keeps the answer with what the turn has changed. When that is durable, whoever removes it one day is told of it.
pub(super) fn record_answer<R: Reply>(
    shared: &Arc<ActorShared>,
    call: Option<&CallKey>,
    method: &'static Method,
    answer: &MethodAnswer<R>,
    writes: &mut Option<Box<ActorWrites>>,
    outputs: &mut Vec<Output>,
) -> Result<()> {
    let Some(call) = call else { return Ok(()) };
    let MethodAnswer::Now(reply) = answer else {
        return Err(kept_for_nobody(shared, method.name()));
    };
    let expires = time::wall().saturating_add(shared.partition.settings.idempotency_retention);
    let answer = StoredAnswer {
        interface: Some(method.interface().to_owned()),
        method: method.name().to_owned(),
        arguments: Some(call.arguments),
        reply: reply.encode().map_err(|error| not_kept(shared, call, method, error))?.into(),
        expires,
    };
    Seal { shared, writes }
        .writes()
        .put_answer(&call.key, answer)
        .map_err(|error| not_kept(shared, call, method, error))?;
    shared.gate.tally.add_answer();
    let partition = shared.partition.clone();
    outputs.push(Box::new(move |turn| {
        if turn.is_ok() {
            partition.expiry.due_at(expires);
        }
    }));
    Ok(())
}

#[cold]
fn not_kept(shared: &ActorShared, call: &CallKey, method: &'static Method, error: Error) -> Error {
    let text = format!(
        "what `{method:?}` of {shared} answers cannot be kept for idempotency key {:?}, and so nothing happened: {error}; answer \
         less, or call without a key",
        call.key
    );
    Error::new(error.kind(), text)
}
