use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{ActorId, Backoff, Epoch, Error, ErrorKind, NodeId, Result, Retries};

use crate::call::arrival::Method;
use crate::call::chain::{CHAIN_MAX, TurnIdentity};
use crate::call::idempotency::CallKey;
use crate::call::turn::Subject;
use crate::call::wire_call::WireKey;
use crate::observe::propagation;
use crate::remote::lanes::{Lane, RemoteSession};
use crate::remote::remote_calls::{Redirect, RemoteRoute};
use crate::remote::reply::CallReply;
use crate::remote::request::{CallRequest, ChainTurn};
use crate::router::{Address, Router};

/// The pauses between tries that nothing is known to be better than.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));

/// How many hints in a row a call follows at once. Nodes that send it back and forth do not agree yet, and it waits.
const HINTS_IN_A_ROW_MAX: u32 = 3;

/// How long a call without a time limit is tried.
const TIME_LIMIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A call to another process, which is sent until there is an answer or the time is over.
pub(crate) struct OutgoingCall {
    session: Arc<RemoteSession>,
    router: Arc<dyn Router>,
    address: Arc<Address>,
    actor: Option<ActorId>,
    method: &'static Method,
    arguments: Bytes,
    key: OutgoingKey,
    chain: Vec<(TurnIdentity, String)>,
    traceparent: Option<String>,
    deadline: Instant,
    /// Whether the call may be sent again when it is not known what became of it.
    can_repeat: bool,
    /// Whether it is not known what became of an earlier try.
    is_unknown: bool,
    retries: Retries,
    hints_in_a_row: u32,
    /// Where to try next, if a node has said so.
    next: Option<RemoteRoute>,
    /// Why the last try has failed.
    last: Option<Error>,
}

/// What makes a call that is sent again the same one.
enum OutgoingKey {
    None,
    Given(Arc<CallKey>, Arc<str>),
    Session(Lane),
}

/// What a call to another process is made from.
pub(crate) struct OutgoingParts {
    pub(crate) session: Arc<RemoteSession>,
    pub(crate) router: Arc<dyn Router>,
    pub(crate) address: Arc<Address>,
    pub(crate) actor: Option<ActorId>,
    pub(crate) method: &'static Method,
    pub(crate) arguments: Bytes,
    /// The idempotency key that the proxy was given.
    pub(crate) key: Option<Arc<CallKey>>,
    pub(crate) chain: Vec<(TurnIdentity, String)>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) is_at_most_once: bool,
    /// Whether the answer comes from a later turn, and so cannot be kept with this one.
    pub(crate) answers_later: bool,
}

impl OutgoingCall {
    pub(crate) fn new(parts: OutgoingParts) -> Result<Self> {
        let OutgoingParts { session, router, address, actor, method, arguments, chain, .. } = parts;
        let now = time::now();
        let limit = now + TIME_LIMIT_MAX;
        let deadline = parts.deadline.map_or(limit, |deadline| deadline.min(limit));
        let expires = time::wall().saturating_add(deadline.saturating_duration_since(now));
        let is_keyed = method.is_exclusive() && !parts.is_at_most_once && !parts.answers_later;
        let key = match (parts.key, &actor) {
            (Some(key), _) => match &*key {
                CallKey::Given { key: text, .. } => {
                    let text = text.clone();
                    OutgoingKey::Given(key, text)
                }
                // A call that has come from elsewhere is not sent on.
                CallKey::Session(_) => OutgoingKey::None,
            },
            (None, Some(actor)) if is_keyed => OutgoingKey::Session(session.lane(&address.service, actor, expires)?),
            (None, _) => OutgoingKey::None,
        };
        let can_repeat = !parts.is_at_most_once
            && match (&key, &actor) {
                (OutgoingKey::Given(..) | OutgoingKey::Session(_), _) => true,
                // A method of an actor that takes `&self` changes nothing of it.
                (OutgoingKey::None, Some(_)) => method.is_repeatable() || !method.is_exclusive(),
                // One of a service may change its collections.
                (OutgoingKey::None, None) => method.is_repeatable(),
            };
        Ok(Self {
            session,
            router,
            address,
            actor,
            method,
            arguments,
            key,
            chain,
            traceparent: propagation::current(),
            deadline,
            can_repeat,
            is_unknown: false,
            retries: BACKOFF.retries(),
            hints_in_a_row: 0,
            next: None,
            last: None,
        })
    }

    /// Where to try next, if a node has said so.
    pub(crate) fn take_next(&mut self) -> Option<RemoteRoute> {
        self.next.take()
    }

    /// The encoded arguments, for a callee that has come here meanwhile.
    pub(crate) fn arguments(&self) -> &Bytes {
        &self.arguments
    }

    /// The key, for a callee that has come here meanwhile: an earlier try may have been carried out elsewhere.
    pub(crate) fn call_key(&self) -> Option<Arc<CallKey>> {
        match &self.key {
            OutgoingKey::None => None,
            OutgoingKey::Given(key, _) => Some(key.clone()),
            OutgoingKey::Session(lane) => Some(Arc::new(CallKey::Session(lane.key))),
        }
    }

    /// Refuses to make a call here that may have been carried out elsewhere and cannot be recognized.
    pub(crate) fn check_repeat(&self) -> Result<()> {
        match self.is_unknown && !self.can_repeat {
            true => Err(self.unknown()),
            false => Ok(()),
        }
    }

    /// Sends the call once. The encoded reply; `None` if the call is to be tried again.
    ///
    /// # Errors
    /// That of the callee's runtime, or that the time is over.
    pub(crate) async fn attempt(&mut self, route: RemoteRoute) -> Result<Option<Bytes>> {
        let remaining = self.remaining()?;
        let Some(node) = route.node else {
            self.last = Some(Error::new(
                ErrorKind::NotPrimary { hint: None },
                format!("no node is known to be the primary of {}", self.address),
            ));
            self.pause().await?;
            return Ok(None);
        };
        let request = self.encode(route.epoch)?;
        let sending = self.session.calls.call(node, request, remaining);
        // The seam has the limit too; this holds if it does not keep it.
        let sent = time::timeout_at(self.deadline, sending).await.unwrap_or_else(|time::Elapsed| {
            Err(Error::new(ErrorKind::OutcomeUnknown, format!("{node} has not answered within the time limit")))
        });
        match sent {
            Ok(bytes) => self.answered(node, CallReply::decode(&bytes)).await,
            Err(error) => self.not_answered(node, error).await,
        }
    }

    fn encode(&self, epoch: Option<Epoch>) -> Result<Bytes> {
        let key = match &self.key {
            OutgoingKey::None => None,
            OutgoingKey::Given(_, key) => Some(WireKey::Given(key.clone())),
            OutgoingKey::Session(lane) => Some(WireKey::Session(lane.key)),
        };
        let chain = self.chain.iter().map(|(identity, method)| ChainTurn {
            service: &identity.service,
            actor: identity.actor.clone(),
            method,
        });
        let request = CallRequest {
            service: &self.address.service,
            partition: self.address.partition,
            actor: self.actor.clone(),
            interface: self.method.interface(),
            method: self.method.name(),
            key,
            traceparent: self.traceparent.as_deref(),
            epoch,
            chain: chain.take(CHAIN_MAX).collect(),
            arguments: self.arguments.clone(),
        };
        request.encode()
    }

    async fn answered(&mut self, node: NodeId, reply: Result<CallReply>) -> Result<Option<Bytes>> {
        let CallReply { epoch, outcome } = match reply {
            Ok(reply) => reply,
            // Somebody has carried it out, or not: what came back cannot be read.
            Err(error) => {
                let text = format!("the answer of {node} cannot be read");
                let error = Error::new(ErrorKind::OutcomeUnknown, text).with_source(error);
                return self.lost(error).await;
            }
        };
        let error = match outcome {
            Ok(value) => {
                if let Some(epoch) = epoch {
                    self.router.redirect(&self.address, Redirect::Answered { node, epoch });
                }
                return Ok(Some(value));
            }
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::NotPrimary { hint } => {
                let hint = hint.filter(|hint| *hint != node);
                self.router.redirect(&self.address, Redirect::NotPrimary { from: node, hint });
                self.last = Some(error);
                self.hints_in_a_row += 1;
                match hint {
                    Some(_) if self.hints_in_a_row <= HINTS_IN_A_ROW_MAX => {
                        self.next = Some(RemoteRoute { node: hint, epoch: None });
                    }
                    _ => self.pause().await?,
                }
                Ok(None)
            }
            ErrorKind::OutcomeUnknown => self.lost(error).await,
            _ => Err(error),
        }
    }

    async fn not_answered(&mut self, node: NodeId, error: Error) -> Result<Option<Bytes>> {
        match error.kind() {
            ErrorKind::OutcomeUnknown => {
                self.router.redirect(&self.address, Redirect::Unreachable { node });
                self.lost(error).await
            }
            // It was not sent.
            ErrorKind::Retry | ErrorKind::Overloaded | ErrorKind::Timeout | ErrorKind::NotFound => {
                if error.kind() != ErrorKind::Overloaded {
                    self.router.redirect(&self.address, Redirect::Unreachable { node });
                }
                self.last = Some(error);
                self.pause().await?;
                Ok(None)
            }
            _ => Err(error),
        }
    }

    /// Goes on after a try whose outcome is not known.
    async fn lost(&mut self, error: Error) -> Result<Option<Bytes>> {
        self.is_unknown = true;
        if let OutgoingKey::Session(lane) = &mut self.key {
            lane.key.is_repeated = true;
        }
        self.last = Some(error);
        if !self.can_repeat {
            return Err(self.unknown());
        }
        self.pause().await?;
        Ok(None)
    }

    async fn pause(&mut self) -> Result<()> {
        self.hints_in_a_row = 0;
        let pause = self.retries.pause();
        self.remaining()?;
        let end = (time::now() + pause).min(self.deadline);
        time::sleep_until(end).await;
        Ok(())
    }

    /// How much time is left.
    fn remaining(&self) -> Result<Duration> {
        let remaining = self.deadline.saturating_duration_since(time::now());
        if !remaining.is_zero() {
            return Ok(remaining);
        }
        if self.is_unknown {
            return Err(self.unknown());
        }
        let text = format!("{} was not begun within the time limit: nothing happened, retry", self.subject());
        let error = Error::new(ErrorKind::Timeout, text);
        Err(match &self.last {
            Some(last) => error.with_source(last.clone()),
            None => error,
        })
    }

    fn unknown(&self) -> Error {
        let text = format!(
            "{} may or may not have been carried out on another node: read the state before you repeat the call",
            self.subject()
        );
        let error = Error::new(ErrorKind::OutcomeUnknown, text);
        match &self.last {
            Some(last) => error.with_source(last.clone()),
            None => error,
        }
    }

    fn subject(&self) -> String {
        let identity = TurnIdentity { service: self.address.service.clone(), actor: self.actor.clone() };
        Subject { method: self.method.name(), target: &identity }.to_string()
    }
}
