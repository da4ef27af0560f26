use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use mainstay_core::{Error, Result};
use mainstay_replica::{KeyRange, Order};

use super::place::Place;
use crate::collection::Handle;
use crate::layout;

/// How many items are read ahead at most, so that a dequeue is seldom a scan.
pub(crate) const READ_AHEAD_ITEMS_MAX: usize = 256;
/// After how many bytes no more items are read ahead.
const READ_AHEAD_BYTES_MAX: usize = 256 << 10;

/// The committed items of a queue that no transaction has taken: the first few of them in memory, the rest in the store.
///
/// It is good for one epoch. Only transactions of this state remove items, and each takes them from here first, so what
/// was read ahead stays true until somebody clears the queue, or it is not known whether a transaction was committed.
/// Both are [doubts](Supply::doubt), after which an item counts only if the store has it.
#[derive(Debug, Default)]
pub(crate) struct Supply {
    ahead: BTreeMap<Place, Option<Seen>>,
    /// The last item that was ever read ahead. All before it are in `ahead`, taken, or gone for good: nothing is read
    /// twice, and what was dequeued long ago is not walked over again.
    read_to: Option<Place>,
    doubts: u64,
}

/// What an item was when it was last looked at.
#[derive(Debug, Clone)]
struct Seen {
    raw: Bytes,
    doubts: u64,
}

/// An item that was taken out of the supply.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) place: Place,
    seen: Seen,
}

impl Item {
    /// The item as it is stored.
    pub(crate) fn raw(&self) -> &Bytes {
        &self.seen.raw
    }
}

impl Supply {
    /// Takes the first item out.
    pub(crate) fn take(&mut self, queue: &Handle) -> Result<Option<Item>> {
        let first = self.first(queue)?;
        if let Some(item) = &first {
            self.ahead.remove(&item.place);
        }
        Ok(first)
    }

    /// The first item, which stays where it is.
    pub(crate) fn first(&mut self, queue: &Handle) -> Result<Option<Item>> {
        loop {
            if self.ahead.is_empty() {
                self.read_ahead(queue)?;
            }
            let Some(first) = self.ahead.first_entry() else { return Ok(None) };
            let place = *first.key();
            match confirm(queue, self.doubts, place, first.get().as_ref())? {
                None => drop(first.remove()),
                Some(seen) => {
                    *first.into_mut() = Some(seen.clone());
                    return Ok(Some(Item { place, seen }));
                }
            }
        }
    }

    /// Whether an item that was taken is still there, in spite of all that has happened since.
    pub(crate) fn confirm(&self, queue: &Handle, item: &mut Item) -> Result<bool> {
        let confirmed = confirm(queue, self.doubts, item.place, Some(&item.seen))?;
        Ok(confirmed.map(|seen| item.seen = seen).is_some())
    }

    /// Puts an item back to where it was.
    pub(crate) fn put_back(&mut self, item: Item) {
        self.ahead.insert(item.place, Some(item.seen));
    }

    /// Puts the items of a transaction back that was undone, or of which that is not known.
    pub(crate) fn put_back_unseen(&mut self, places: impl IntoIterator<Item = Place>) {
        self.ahead.extend(places.into_iter().map(|place| (place, None)));
    }

    /// From now on nothing counts that was read before.
    pub(crate) fn doubt(&mut self) {
        self.doubts += 1;
    }

    fn read_ahead(&mut self, queue: &Handle) -> Result<()> {
        let id = queue.known.id;
        let mut range = KeyRange::prefix(&layout::entry_prefix(id));
        if let Some(place) = self.read_to {
            range.start = Bound::Excluded(Bytes::copy_from_slice(&place.key(id)));
        }
        let mut bytes = 0;
        for entry in queue.shared.read()?.scan(range, Order::Ascending)? {
            let (key, raw) = entry?;
            let place =
                Place::parse(&key).ok_or_else(|| Error::corrupt(format!("a key of {} is damaged", queue.known)))?;
            bytes += raw.len();
            self.ahead.insert(place, Some(Seen { raw, doubts: self.doubts }));
            self.read_to = Some(place);
            if self.ahead.len() >= READ_AHEAD_ITEMS_MAX || bytes >= READ_AHEAD_BYTES_MAX {
                break;
            }
        }
        Ok(())
    }
}

/// What an item is, looked up if what was seen of it is in doubt; `None` if it is gone.
fn confirm(queue: &Handle, doubts: u64, place: Place, seen: Option<&Seen>) -> Result<Option<Seen>> {
    match seen {
        Some(seen) if seen.doubts == doubts => {
            // Another primary may have dequeued it.
            queue.shared.check()?;
            Ok(Some(seen.clone()))
        }
        _ => Ok(queue.shared.get(&place.key(queue.known.id))?.map(|raw| Seen { raw, doubts })),
    }
}
