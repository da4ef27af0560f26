use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};

use crate::actor::actor_shared::ActorShared;

/// The place of an actor, as a proxy remembers it.
pub(crate) struct CachedRoute {
    pub(crate) shared: Arc<ActorShared>,
    /// The actor behind an interface: an `Arc` of the interface's own type.
    pub(crate) object: Box<dyn Any + Send + Sync>,
}

impl CachedRoute {
    #[inline]
    pub(crate) fn object<O: ?Sized + Send + Sync + 'static>(&self) -> Option<&Arc<O>> {
        self.object.downcast_ref::<Arc<O>>()
    }
}

/// Where an actor was found by one proxy and its clones.
///
/// The first place is there for good, so that a look at it counts nothing; most actors stay there for as long as somebody
/// calls them. Places after it take their turns.
pub(crate) struct RouteCache<S = CachedRoute> {
    first: OnceLock<S>,
    /// Whether the actor is not at the first place any more.
    has_left: AtomicBool,
    later: ArcSwapOption<S>,
}

impl<S> Default for RouteCache<S> {
    fn default() -> Self {
        Self { first: OnceLock::new(), has_left: AtomicBool::new(false), later: ArcSwapOption::empty() }
    }
}

impl<S> RouteCache<S> {
    /// The first place, if the actor is still there.
    #[inline]
    pub(crate) fn first(&self) -> Option<&S> {
        self.first.get().filter(|_| !self.has_left.load(Ordering::Relaxed))
    }

    /// The last place; one that does not fit need not be it.
    #[inline]
    pub(crate) fn last(&self, fits: impl FnOnce(&S) -> bool) -> Last<'_, S> {
        match self.first() {
            Some(first) if fits(first) => Last::First(first),
            _ => Last::Later(self.later.load()),
        }
    }

    /// Notes where the actor is.
    pub(crate) fn remember(&self, route: S) {
        if let Err(route) = self.first.set(route) {
            self.later.store(Some(Arc::new(route)));
        }
    }

    /// Notes that the actor is not there any more.
    pub(crate) fn forget(&self) {
        // Two who find it gone may make a third look once more than needed.
        if self.has_left.swap(true, Ordering::Relaxed) {
            self.later.store(None);
        }
    }
}

/// A look at a place.
pub(crate) enum Last<'s, S> {
    First(&'s S),
    Later(Guard<Option<Arc<S>>>),
}

impl<S> Last<'_, S> {
    #[inline]
    pub(crate) fn route(&self) -> Option<&S> {
        match self {
            Self::First(route) => Some(route),
            Self::Later(route) => route.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(seats: &RouteCache<u32>, fits: impl FnOnce(&u32) -> bool) -> Option<u32> {
        seats.last(fits).route().copied()
    }

    #[test]
    fn an_actor_is_found_where_it_was_last() {
        let seats = RouteCache::default();
        assert_eq!(last(&seats, |_| true), None);
        for place in 1..5 {
            seats.remember(place);
            assert_eq!(last(&seats, |_| true), Some(place));
            seats.forget();
            assert_eq!(last(&seats, |_| true), None);
        }
    }

    #[test]
    fn a_first_place_that_does_not_fit_is_in_nobodys_way() {
        let seats = RouteCache::default();
        seats.remember(7);
        assert_eq!(last(&seats, |&route| route != 7), None);
        seats.remember(1);
        assert_eq!(last(&seats, |&route| route != 7), Some(1));
    }
}
