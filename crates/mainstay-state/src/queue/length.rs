use mainstay_core::{Error, Result};

use super::line::parse_len;
use super::place::Place;
use crate::collection::Handle;
use crate::layout;
use crate::transaction::Transaction;

/// The number of items that a transaction sees: those of its snapshot, without those that it has dequeued and with
/// those that it has enqueued.
pub(crate) fn len(queue: &Handle, tx: &mut Transaction) -> Result<u64> {
    let (snapshot, _) = tx.snapshot()?;
    let id = queue.known.id;
    let mut stored = 0;
    if !tx.writes.is_cleared(id)
        && let Some(bytes) = snapshot.get(&layout::length(id))?
    {
        stored = parse_len(queue, &bytes)?;
    }
    // What came after the snapshot is not among them, and so cannot be taken from them.
    let seen = snapshot.sequence_number();
    let dequeued = tx.writes.of(id).rev();
    let unseen = dequeued.take_while(|(key, _)| Place::parse(key).is_some_and(|place| place.commit > seen)).count();
    let length = stored.checked_add_signed(tx.writes.length_change(id) + unseen as i64);
    length.ok_or_else(|| Error::corrupt(format!("the length of {} is damaged", queue.known)))
}
