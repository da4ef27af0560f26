use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstay_core::time::WallTime;
use mainstay_core::{ActorId, Error, ErrorKind, Result, random};
use parking_lot::Mutex;
use rand::Rng as _;

use crate::call::session::SessionKey;
use crate::remote::remote_calls::RemoteCalls;

/// The most calls with a key that a process has under way to one actor.
pub(crate) const LANES_MAX: usize = 4096;

/// The calls of this process to others: the seam, and the session of the process.
pub struct RemoteSession {
    pub(crate) calls: Arc<dyn RemoteCalls>,
    session: u64,
    /// The number of the next call. One counter for all actors: the numbers of a lane grow, and nothing has to be remembered of an
    /// actor that no call is under way to.
    next: AtomicU64,
    busy: Mutex<HashMap<Arc<LaneOwner>, BTreeSet<u16>>>,
}

/// The actor that a lane leads to.
#[derive(PartialEq, Eq, Hash)]
struct LaneOwner {
    service: Arc<str>,
    actor: ActorId,
}

impl fmt::Debug for RemoteSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteSession({:016x}, {:?})", self.session, self.calls)
    }
}

impl RemoteSession {
    /// A new session.
    pub fn new(calls: Arc<dyn RemoteCalls>) -> Self {
        Self { calls, session: random::rng().next_u64(), next: AtomicU64::new(1), busy: Mutex::default() }
    }

    /// Takes the first free lane to an actor for a call whose caller gives up at a moment.
    pub(crate) fn lane(self: &Arc<Self>, service: &Arc<str>, actor: &ActorId, expires: WallTime) -> Result<Lane> {
        let owner = Arc::new(LaneOwner { service: service.clone(), actor: actor.clone() });
        let mut busy = self.busy.lock();
        let lanes = busy.entry(owner.clone()).or_default();
        // The lanes that are taken are mostly the first ones.
        let taken = lanes.iter().zip(0..).take_while(|(lane, number)| **lane == *number).count();
        let lane = u16::try_from(taken).ok().filter(|_| taken < LANES_MAX).ok_or_else(|| {
            Error::new(
                ErrorKind::Overloaded,
                format!("{service}({actor}) has LANES_MAX = {LANES_MAX} calls of this process under way: slow down and retry"),
            )
        })?;
        lanes.insert(lane);
        // Under the lock, so that the numbers of a lane grow.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        drop(busy);
        let key = SessionKey { session: self.session, lane, number, expires, is_repeated: false };
        Ok(Lane { session: self.clone(), owner, key })
    }
}

/// A lane that a call has taken, until this is dropped.
pub(crate) struct Lane {
    session: Arc<RemoteSession>,
    owner: Arc<LaneOwner>,
    pub(crate) key: SessionKey,
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut busy = self.session.busy.lock();
        if let Some(lanes) = busy.get_mut(&self.owner) {
            lanes.remove(&self.key.lane);
            if lanes.is_empty() {
                busy.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::future::BoxFuture;
    use mainstay_core::NodeId;
    use mainstay_core::time::Duration;

    use super::*;
    use crate::remote::remote_calls::{Redirect, RemoteRoute};
    use crate::router::Address;

    #[derive(Debug)]
    struct Nowhere;

    impl RemoteCalls for Nowhere {
        fn call(&self, _: NodeId, _: Bytes, _: Duration) -> BoxFuture<'static, Result<Bytes>> {
            Box::pin(std::future::pending())
        }

        fn route(&self, _: &Address) -> RemoteRoute {
            RemoteRoute::default()
        }

        fn redirect(&self, _: &Address, _: Redirect) {}
    }

    #[test]
    fn a_lane_has_one_call_at_a_time_and_numbers_that_grow() {
        let session = Arc::new(RemoteSession::new(Arc::new(Nowhere)));
        let service: Arc<str> = "counter".into();
        let take = |actor: i64| session.lane(&service, &ActorId::Number(actor), WallTime::MAX).unwrap();
        let (first, second, other) = (take(1), take(1), take(2));
        assert_eq!([first.key.lane, second.key.lane, other.key.lane], [0, 1, 0]);
        let before = first.key.number;
        drop(first);
        let third = take(1);
        assert_eq!(third.key.lane, 0);
        assert!(third.key.number > before && second.key.number > before);
        drop((second, third, other));
        assert!(session.busy.lock().is_empty());
    }

    #[test]
    fn more_calls_than_lanes_are_refused() {
        let session = Arc::new(RemoteSession::new(Arc::new(Nowhere)));
        let service: Arc<str> = "counter".into();
        let take = || session.lane(&service, &ActorId::Number(1), WallTime::MAX);
        let mut lanes: Vec<_> = (0..LANES_MAX).map(|_| take().unwrap()).collect();
        assert_eq!(take().map(drop).unwrap_err().kind(), ErrorKind::Overloaded);
        lanes.swap_remove(17);
        assert_eq!(take().unwrap().key.lane, 17);
    }
}
