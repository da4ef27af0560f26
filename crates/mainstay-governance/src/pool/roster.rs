use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainstay::Result;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::owner::Resource;
use crate::pool::Pick;
use crate::pool::interface::{MemberRef, View};
use crate::pool::pick::member_of;

/// The members of a pool as a handle knows them: its copy of the [`View`], with what it has learned by itself.
pub(crate) struct Roster<R: Resource> {
    pub(crate) view: View,
    handles: Vec<Arc<MemberHandle<R>>>,
}

/// A member as a handle knows it.
pub(crate) struct MemberHandle<R: Resource> {
    pub(crate) index: u32,
    pub(crate) member: MemberRef<R>,
    /// How many jobs of this handle it has.
    in_flight: AtomicUsize,
    /// Until when it is passed over, and why.
    rest: Mutex<Option<(Instant, String)>>,
}

/// All members rest, the first of them until then.
pub(crate) struct AllRest {
    pub(crate) until: Instant,
    pub(crate) cause: String,
}

/// Which member is wanted.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'k> {
    Any(Pick),
    Of(&'k str),
}

impl<R: Resource> Roster<R> {
    /// The members of a view. What was known of those that stay is kept.
    pub(crate) fn new(
        view: View,
        known: &[Arc<MemberHandle<R>>],
        handle: impl Fn(u32) -> Result<MemberRef<R>>,
    ) -> Result<Self> {
        let kept = known.iter().take(view.size as usize).cloned().map(Ok);
        let fresh = (known.len() as u32..view.size).map(|index| {
            let member = handle(index)?;
            Ok(Arc::new(MemberHandle { index, member, in_flight: AtomicUsize::new(0), rest: Mutex::new(None) }))
        });
        Ok(Self { view, handles: kept.chain(fresh).collect::<Result<_>>()? })
    }

    pub(crate) fn handles(&self) -> &[Arc<MemberHandle<R>>] {
        &self.handles
    }

    /// Picks a member. `turn` is a number that rises with each pick.
    pub(crate) fn pick(&self, wanted: Wanted<'_>, turn: usize, now: Instant) -> Result<&Arc<MemberHandle<R>>, AllRest> {
        let empty = || AllRest { until: now, cause: "the pool has no members".to_owned() };
        if let Wanted::Of(key) = wanted {
            let handle = self.handles.get(member_of(key, self.handles.len())).ok_or_else(empty)?;
            return handle.rest_left(now).map_or(Ok(handle), Err);
        }
        let (before, after) = self.handles.split_at(turn % self.handles.len().max(1));
        let mut all_rest: Option<AllRest> = None;
        let awake = after.iter().chain(before).filter(|handle| match handle.rest_left(now) {
            None => true,
            Some(rest) => {
                all_rest = all_rest.take().into_iter().chain([rest]).min_by_key(|rest| rest.until);
                false
            }
        });
        let picked = match wanted {
            Wanted::Any(Pick::LeastLoaded) => awake.min_by_key(|handle| handle.in_flight()),
            Wanted::Any(Pick::RoundRobin) | Wanted::Of(_) => awake.take(1).next(),
        };
        picked.ok_or_else(|| all_rest.unwrap_or_else(empty))
    }
}

impl<R: Resource> MemberHandle<R> {
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a job until what is returned is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> InFlight<R> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    /// Passes it over for a while.
    pub(crate) fn rest(&self, left: Duration, cause: String, now: Instant) {
        *self.rest.lock() = Some((now + left, cause));
    }

    fn rest_left(&self, now: Instant) -> Option<AllRest> {
        let mut rest = self.rest.lock();
        let (until, cause) = rest.as_ref()?;
        if *until > now {
            return Some(AllRest { until: *until, cause: cause.clone() });
        }
        *rest = None;
        None
    }
}

/// A job that a member has.
pub(crate) struct InFlight<R: Resource>(Arc<MemberHandle<R>>);

impl<R: Resource> Drop for InFlight<R> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
