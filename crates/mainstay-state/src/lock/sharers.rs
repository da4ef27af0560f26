use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::TransactionId;
use super::holders::Holder;
use crate::layout::CollectionId;

/// In how many parts the sharers are listed, so that threads do not meet.
const STRIPES: usize = 32;

/// How many are looked through one by one. Those for whom there is no room take a lock in the table.
const STRIPE_SHARERS_MAX: usize = 8;

/// Those who share what nearly everybody shares and hardly anybody wants alone: a collection. They are listed where their
/// thread lists them, and not with the collection's key in the table, where all would meet.
///
/// Whoever wants a collection alone bars it first: then all who are listed here are put into the table, and whoever comes
/// takes a lock there, until nobody bars.
#[derive(Debug)]
pub(super) struct Sharers {
    stripes: [Stripe; STRIPES],
    /// How many bar.
    barred: AtomicUsize,
}

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    sharers: Mutex<SmallVec<[Sharer; 1]>>,
}

/// One who shares a collection.
#[derive(Debug)]
pub(super) struct Sharer {
    pub(super) collection: CollectionId,
    pub(super) holder: Holder,
}

/// The part of the list in which a sharer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StripeNumber(u8);

impl Sharers {
    pub(super) fn new() -> Self {
        Self { stripes: std::array::from_fn(|_| Stripe::default()), barred: AtomicUsize::new(0) }
    }

    /// Lists a sharer, and says where; `None` if it must take a lock in the table.
    #[inline]
    pub(super) fn add(&self, sharer: Sharer) -> Option<StripeNumber> {
        let number = STRIPE.with(|number| *number);
        let mut sharers = self.stripe(number).lock();
        // Who bars looks into every part afterwards, so that it finds this sharer or is seen here.
        // Who does not see one who has barred sees what that one has done: nothing of it is to be met half done.
        if self.is_barred() || sharers.len() >= STRIPE_SHARERS_MAX {
            return None;
        }
        sharers.push(sharer);
        Some(number)
    }

    #[inline]
    fn is_barred(&self) -> bool {
        #[cfg(feature = "planted-bugs")]
        if crate::planted::is_planted(crate::planted::PlantedBug::ShareWhatIsBarred) {
            return false;
        }
        self.barred.load(Ordering::Acquire) > 0
    }

    /// Takes a sharer off the list, and gives it to `then` if it is still there, before anybody else looks for it.
    #[inline]
    pub(super) fn remove(
        &self,
        number: StripeNumber,
        collection: CollectionId,
        id: TransactionId,
        then: impl FnOnce(Sharer),
    ) -> bool {
        let mut sharers = self.stripe(number).lock();
        let is_it = |sharer: &Sharer| sharer.holder.id == id && sharer.collection == collection;
        let Some(place) = sharers.iter().position(is_it) else { return false };
        then(sharers.swap_remove(place));
        true
    }

    /// Lists nobody any more until [`unbar`](Sharers::unbar), and gives all who are listed to `then`.
    pub(super) fn bar(&self, mut then: impl FnMut(Sharer)) {
        self.barred.fetch_add(1, Ordering::Relaxed);
        for stripe in &self.stripes {
            // Who leaves meanwhile finds itself here or with `then`.
            let mut sharers = stripe.sharers.lock();
            sharers.drain(..).for_each(&mut then);
        }
    }

    /// Ends what [`bar`](Sharers::bar) began.
    pub(super) fn unbar(&self) {
        // What was done while it was barred comes before whoever is listed again.
        self.barred.fetch_sub(1, Ordering::Release);
    }

    #[inline]
    fn stripe(&self, StripeNumber(number): StripeNumber) -> &Mutex<SmallVec<[Sharer; 1]>> {
        &self.stripes[usize::from(number) % STRIPES].sharers
    }
}

thread_local! {
    /// Where this thread lists sharers.
    static STRIPE: StripeNumber = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Less than STRIPES, which a byte holds.
        StripeNumber((NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES) as u8)
    };
}

#[cfg(test)]
impl Sharers {
    /// How many are listed.
    pub(super) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.sharers.lock().len()).sum()
    }
}
