use mainstay::prelude::*;

use super::{DeadLetter, DurableStatus, DurableWriter};

/// A line of items that are stored at once and written in batches: see the [module](super). The id is the key of what it
/// writes to, a text.
#[interface(served_by = "DurableBatch::serve(builder, writer)")]
pub trait DurableQueue<W: DurableWriter> {
    /// Takes an item; answered with its number when it is stored. Called by way of `idempotent(key)`, it is taken once for
    /// each key.
    ///
    /// `Overloaded` if the line is full.
    async fn append(&mut self, item: W::Item) -> Result<u64>;

    /// Takes items, all or none; answered with the number of the first when they are stored.
    ///
    /// `Overloaded` if the line is full; `TooLarge` for more than
    /// [`waiting_items_max`](super::DurableSettings::waiting_items_max), which it never has room for.
    async fn append_all(&mut self, items: Vec<W::Item>) -> Result<u64>;

    /// Takes an item, and answers with its number when it is written. To send it again when an answer got lost, use
    /// [`append`](DurableQueue::append) with a key, and [`written`](DurableQueue::written).
    async fn append_and_wait(&mut self, item: W::Item) -> Result<Deferred<u64>>;

    /// Answers when the item of a number is written; with an error if it was set aside.
    async fn written(&mut self, number: u64) -> Result<Deferred<()>>;

    /// Writes what is there without waiting for more, and answers when it is written or set aside.
    async fn flush(&mut self) -> Result<Deferred<()>>;

    /// How the line is.
    async fn status(&self) -> Result<DurableStatus>;

    /// The items that cannot be written, oldest first, without removing them.
    async fn dead_letters(&self) -> Result<Vec<DeadLetter<W::Item>>>;

    /// Removes an item that was set aside, and returns it.
    async fn take_dead_letter(&mut self, number: u64) -> Result<DeadLetter<W::Item>>;
}
