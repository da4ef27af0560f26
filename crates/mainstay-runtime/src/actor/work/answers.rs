//! The answers that are kept for idempotency keys.

use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::contract::Fingerprint;
use mainstay_core::time::{self, Duration, WallTime};
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::{ActorWrites, Answer as StoredAnswer, LaneAnswer};

use crate::actor::Seal;
use crate::actor::actor_shared::ActorShared;
use crate::actor::gate::Output;
use crate::call::arrival::Method;
use crate::call::contract::Reply;
use crate::call::finished::MethodAnswer;
use crate::call::idempotency::CallKey;
use crate::call::session::SessionKey;

/// How many lanes of callers an actor keeps an answer for. Beyond, calls of further callers are refused until some have expired: a
/// few minutes after their callers have made their last call.
pub(crate) const LANES_PER_ACTOR_MAX: usize = 16_384;

/// How much longer than its caller waits the answer in a lane is kept: more than the clocks of two nodes may differ by.
const CLOCK_ALLOWANCE: Duration = Duration::from_secs(30);

/// The answers in lanes expire at multiples of this, so that one that takes the place of another mostly keeps the time.
const LANE_EXPIRY_STEP_MS: u64 = 60_000;

/// The answer that the same call was given before.
pub(super) fn known_answer<R: Reply>(
    shared: &ActorShared,
    call: &CallKey,
    method: &'static Method,
) -> Result<Option<R>> {
    let reply = match call {
        CallKey::Given { key, arguments } => {
            let Some(answer) = shared.gate.answer(shared, key)? else { return Ok(None) };
            if answer.expires <= time::wall() {
                return Ok(None);
            }
            refuse_another(shared, key, *arguments, method, &answer)?;
            answer.reply
        }
        CallKey::Session(key) => match known_in_lane(shared, key, method)? {
            Some(reply) => reply,
            None => return Ok(None),
        },
    };
    R::decode(&reply).map(Some).map_err(|error| {
        let text =
            format!("the answer to the first call of {shared}.{} with {} cannot be read", method.name(), named(call));
        Error::new(error.kind(), text).with_source(error)
    })
}

/// The answer that the same call was given before in its lane.
fn known_in_lane(shared: &ActorShared, key: &SessionKey, method: &'static Method) -> Result<Option<Bytes>> {
    let late = |why: &str| {
        let method = method.name();
        Error::new(
            ErrorKind::Timeout,
            format!(
                "{key} (`{method}` of {shared}) was not carried out now, because {why}: nothing happened, and its caller has given up"
            ),
        )
    };
    if key.expires <= time::wall() {
        return Err(late("it has arrived after its time"));
    }
    match shared.gate.lane(shared, &key.lane_name())? {
        Some(answer) if answer.number == key.number => Ok(Some(answer.reply)),
        Some(answer) if answer.number > key.number => Err(late("a later call in its lane was answered before")),
        _ => Ok(None),
    }
}

/// How errors name a key.
fn named(call: &CallKey) -> String {
    match call {
        CallKey::Given { key, .. } => format!("idempotency key {key:?}"),
        CallKey::Session(key) => key.to_string(),
    }
}

/// Refuses a key that was used for another call. What an earlier build has not recorded is not compared.
fn refuse_another(
    shared: &ActorShared,
    key: &str,
    arguments: Fingerprint,
    method: &'static Method,
    answer: &StoredAnswer,
) -> Result<()> {
    let interface = answer.interface.as_deref();
    let other = if answer.method != method.name() || interface.is_some_and(|interface| interface != method.interface())
    {
        let before =
            interface.map_or_else(|| answer.method.clone(), |interface| format!("{interface}::{}", answer.method));
        format!("was used for `{before}` before, and now for `{method:?}`")
    } else if let Some(before) = answer.arguments
        && before != arguments
    {
        format!(
            "was used for `{method:?}` with other arguments before (their fingerprint is {before:?}, and now {arguments:?})"
        )
    } else {
        return Ok(());
    };
    let text =
        format!("idempotency key {key:?} of {shared} {other}: nothing happened, use another key for another call");
    Err(Error::new(ErrorKind::Conflict, text))
}

/// Refuses a call with a key whose answer there is no room for, before it runs.
pub(super) fn refuse_if_full(shared: &ActorShared, call: &CallKey) -> Result<()> {
    let text = match call {
        CallKey::Given { .. } => {
            let (kept, keys_max) = (shared.gate.tally.answers(shared)?, shared.partition.settings.idempotency_keys_max);
            if kept < keys_max {
                return Ok(());
            }
            format!(
                "{shared} keeps {kept} answers for idempotency keys, and idempotency_keys_max is {keys_max}: nothing happened; retry \
                 when some have expired, or shorten idempotency_retention, or raise idempotency_keys_max"
            )
        }
        CallKey::Session(key) => {
            let kept = shared.gate.tally.lanes(shared)?;
            if kept < LANES_PER_ACTOR_MAX || shared.gate.lane(shared, &key.lane_name())?.is_some() {
                return Ok(());
            }
            format!(
                "{shared} keeps the last answers of {kept} callers elsewhere, and LANES_PER_ACTOR_MAX is {LANES_PER_ACTOR_MAX}: nothing \
                 happened; retry when some have expired, or call by a proxy that is `at_most_once`"
            )
        }
    };
    Err(Error::new(ErrorKind::Overloaded, text))
}

/// What a call with a key is told whose answer is given after the turn.
pub(super) fn kept_for_nobody(shared: &ActorShared, method: &str) -> Error {
    Error::invalid(format!(
        "`{method}` of {shared} answers later, and so its answer cannot be kept with the turn: call it without an idempotency key"
    ))
}

/// Keeps the answer with what the turn has changed. When that is durable, the sweep that removes it one day is told of it.
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
    let reply = reply.encode().map_err(|error| not_kept(shared, call, method, error))?.into();
    let mut seal = Seal { shared, writes };
    let writes = seal.writes();
    let (kept, expires) = match call {
        CallKey::Given { key, arguments } => {
            let expires = time::wall().saturating_add(shared.partition.settings.idempotency_retention);
            let answer = StoredAnswer {
                interface: Some(method.interface().to_owned()),
                method: method.name().to_owned(),
                arguments: Some(*arguments),
                reply,
                expires,
            };
            shared.gate.tally.add_answer();
            (writes.put_answer(key, answer), expires)
        }
        CallKey::Session(key) => {
            let (lane, expires) = (key.lane_name(), lane_expiry(key.expires));
            if shared.gate.lane(shared, &lane)?.is_none() {
                shared.gate.tally.add_lane();
            }
            (writes.put_lane(&lane, LaneAnswer { number: key.number, reply, expires }), expires)
        }
    };
    kept.map_err(|error| not_kept(shared, call, method, error))?;
    let partition = shared.partition.clone();
    outputs.push(Box::new(move |turn| {
        if turn.is_ok() {
            partition.expiry.due_at(expires);
        }
    }));
    Ok(())
}

/// Keeps the answer of a call that has failed, if the call was sent before: then the first one may still be on its way, and must
/// not be carried out once its caller was told of the failure. The first of all leaves no trace when it fails.
pub(super) fn record_failure<R: Reply>(
    shared: &Arc<ActorShared>,
    call: Option<&CallKey>,
    method: &'static Method,
    answer: &MethodAnswer<R>,
    writes: &mut Option<Box<ActorWrites>>,
) {
    if !matches!(call, Some(CallKey::Session(key)) if key.is_repeated) {
        return;
    }
    if let Err(error) = record_answer(shared, call, method, answer, writes, &mut Vec::new()) {
        tracing::warn!(actor = %shared, ?error, "the failure of a repeated call is not kept");
    }
}

/// Until when an answer in a lane is kept whose caller waits until a moment of its own clock.
fn lane_expiry(given_up: WallTime) -> WallTime {
    let earliest = given_up.saturating_add(CLOCK_ALLOWANCE).as_millis();
    WallTime::from_millis(earliest.checked_next_multiple_of(LANE_EXPIRY_STEP_MS).unwrap_or(earliest))
}

#[cold]
fn not_kept(shared: &ActorShared, call: &CallKey, method: &'static Method, error: Error) -> Error {
    let text = format!(
        "what `{method:?}` of {shared} answers cannot be kept for {}, and so nothing happened: {error}; answer less, or call without \
         a key",
        named(call)
    );
    Error::new(error.kind(), text)
}
