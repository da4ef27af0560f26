//! Subscriptions of other nodes: leased here, and asked for what has come.
//!
//! The subscriber asks again and again, and each request waits here until there is something or a while is over. What was sent is kept
//! until the next request says that it has arrived. A lease whose subscriber does not ask any more ends by itself.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{ActorId, Error, ErrorKind, NodeId, Result, contract, random};
use mainstay_state::actor::Published;
use parking_lot::Mutex;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use crate::actor::event::inbox::Taken;
use crate::actor::event::subscription::Subscription;
use crate::call::arrival::Method;
use crate::slot::{Slot, SlotState};

/// Asks for the events of a subscription.
pub(crate) static POLL: Method = Method::new("mainstay/Events", "poll").repeatable();

/// How long a request for events waits for one.
pub(crate) const POLL_WAIT_MAX: Duration = Duration::from_secs(10);

/// How long a subscription is kept whose subscriber does not ask.
const LEASE: Duration = Duration::from_secs(30);

/// The most subscriptions that are leased on a node; beyond it is `Overloaded`.
pub(crate) const LEASES_MAX: usize = 65_536;

/// The most events of one answer.
const EVENTS_PER_ANSWER_MAX: usize = 256;

/// About the most bytes of one answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A request for events.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PollRequest {
    pub(super) subscription: u64,
    pub(super) event: String,
    /// The lease that the last answer was of; 0 for none. A subscriber that comes back from another node gets a new one.
    pub(super) lease: u64,
    /// The number of the answer that has arrived last; 0 for none.
    pub(super) arrived: u64,
}

/// What has come for a subscription.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct PollReply {
    pub(super) lease: u64,
    /// The number of this answer: that of a new lease begins anew at 1.
    pub(super) number: u64,
    /// How many events there were when the lease began, in which life of the actor.
    pub(super) start: Option<(u64, u64)>,
    pub(super) told: Vec<Told>,
}

/// Something that a subscriber is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Told {
    /// An event, with its life and number where they are known.
    Event { bytes: Bytes, number: Option<(u64, u64)> },
    /// The actor was deleted.
    Deleted,
}

/// The subscriptions of other nodes.
#[derive(Default)]
pub(crate) struct EventLeases {
    leases: Mutex<HashMap<(NodeId, u64), Arc<EventLease>>>,
}

struct EventLease {
    /// Drawn at random, and never 0.
    id: u64,
    subscription: Subscription,
    start: Option<Published>,
    state: Mutex<LeaseState>,
}

struct LeaseState {
    asked: Instant,
    /// The last answer, until the next request says that it has arrived.
    last: PollReply,
}

impl EventLeases {
    /// Waits for events of a subscription, which is leased by this.
    ///
    /// # Errors
    /// `Overloaded` if there are too many; `NotPrimary` once the partition has left.
    pub(crate) async fn poll(
        &self,
        from: NodeId,
        slot: &Arc<Slot>,
        actor: &ActorId,
        arguments: &[u8],
        remaining: Duration,
    ) -> Result<Bytes> {
        let request: PollRequest = contract::decode(arguments)?;
        let lease = self.lease(from, slot, actor, &request)?;
        {
            let mut state = lease.state.lock();
            state.asked = time::now();
            if request.arrived != state.last.number && state.last.number > 0 {
                // What was sent has not arrived.
                return contract::encode(&state.last).map(Bytes::from);
            }
        }
        let wait = POLL_WAIT_MAX.min(remaining / 2);
        let told = tokio::select! {
            biased;
            told = time::timeout(wait, lease.next()) => told.unwrap_or_else(|time::Elapsed| Ok(Vec::new()))?,
            // The subscriber goes on at the new primary at once.
            () = slot.elsewhere() => return Err(moved(slot)),
        };
        let mut state = lease.state.lock();
        state.asked = time::now();
        let start = lease.start.map(|start| (start.life, start.count));
        state.last = PollReply { lease: lease.id, number: state.last.number + 1, start, told };
        contract::encode(&state.last).map(Bytes::from)
    }

    fn lease(&self, from: NodeId, slot: &Arc<Slot>, actor: &ActorId, request: &PollRequest) -> Result<Arc<EventLease>> {
        let mut leases = self.leases.lock();
        let now = time::now();
        leases.retain(|_, lease| now.duration_since(lease.state.lock().asked) < LEASE);
        let key = (from, request.subscription);
        // A first answer that was lost leaves a lease that its subscriber does not know of.
        let is_same = |lease: &&Arc<EventLease>| {
            lease.subscription.is_at(slot) && (lease.id == request.lease || request.lease == 0)
        };
        if let Some(lease) = leases.get(&key).filter(is_same) {
            return Ok(lease.clone());
        }
        if leases.len() >= LEASES_MAX {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "{LEASES_MAX} subscriptions of other nodes are kept already (LEASES_MAX): drop some, or share one"
                ),
            ));
        }
        let subscription = Subscription::open(slot.clone(), actor.clone(), request.event.as_str().into())?;
        let start = subscription.start();
        let state = LeaseState { asked: now, last: PollReply::default() };
        let id = random::rng().next_u64() | 1;
        let lease = Arc::new(EventLease { id, subscription, start, state: Mutex::new(state) });
        leases.insert(key, lease.clone());
        Ok(lease)
    }
}

fn moved(slot: &Slot) -> Error {
    let hint = match slot.state() {
        SlotState::PrimaryElsewhere(node) => Some(node),
        _ => None,
    };
    let address = slot.address();
    Error::new(ErrorKind::NotPrimary { hint }, format!("{address} is not on this node any more: subscribe where it is"))
}

impl EventLease {
    /// What has come, at least one.
    async fn next(&self) -> Result<Vec<Told>> {
        let mut bytes = 0;
        let first = poll_fn(|cx| self.subscription.poll_taken(cx)).await;
        let mut told = vec![self.tell(first, &mut bytes)?];
        while told.len() < EVENTS_PER_ANSWER_MAX && bytes < ANSWER_BYTES_MAX {
            let next = poll_fn(|cx| match self.subscription.poll_taken(cx) {
                Poll::Ready(taken) => Poll::Ready(Some(taken)),
                Poll::Pending => Poll::Ready(None),
            });
            match next.await {
                Some(taken) => told.push(self.tell(taken, &mut bytes)?),
                None => break,
            }
        }
        Ok(told)
    }

    fn tell(&self, taken: Taken, bytes: &mut usize) -> Result<Told> {
        match taken {
            Taken::Event(waiting) => {
                let encoded = Bytes::from(waiting.event.encode()?);
                *bytes += encoded.len();
                Ok(Told::Event { bytes: encoded, number: waiting.number.map(|number| (number.life, number.count)) })
            }
            Taken::Deleted => Ok(Told::Deleted),
            Taken::Stopped => Err(Error::new(
                ErrorKind::NotPrimary { hint: None },
                format!("{} is not heard here any more: its partition has left this node", self.subscription),
            )),
        }
    }
}
