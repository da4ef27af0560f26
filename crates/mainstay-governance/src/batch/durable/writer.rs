use std::future::{Future, ready};
use std::sync::Arc;

use mainstay::Result;
use mainstay::node::{NodeBuilder, Settings};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::DurableSettings;
use crate::owner::{FenceLineage, Opening};

/// Where the items of a [`DurableBatch`](super::DurableBatch) go.
///
/// A value of the type says how; there is one per process, given to the node by
/// [`DurableBatch::serve`](super::DurableBatch::serve).
///
/// To be correct:
/// - a write is durable when it has returned;
/// - an item that is written again, with the same lineage and number, is there once: either because the two together are unique
///   outside, or because whatever is behind the mark is removed first;
/// - a handle that was opened with a smaller token than another cannot write any more;
/// - any future of it may be dropped before its end, when it takes longer than
///   [`write_time_max`](DurableSettings::write_time_max).
pub trait DurableWriter: Send + Sync + Sized + 'static {
    /// The name of the service of its actors. It is recorded with their data, and so is not to be changed later.
    const NAME: &'static str;

    /// What is written. It is stored until then.
    type Item: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;

    /// What is open: the connection, the file.
    type Handle: Send + 'static;

    /// A place outside, up to which everything was written; `()` where numbers are enough.
    type Mark: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;

    /// Opens what is outside for one actor, whose id is the key, a text. The token is larger at every opening; an error for one
    /// that is not should say what is [remembered](crate::owner::Fence::remembered), so that an actor whose state was lost can
    /// go on. Errors never blame the items.
    fn open(&self, opening: &Opening) -> impl Future<Output = Result<Self::Handle>> + Send;

    /// The first mark of an actor: where its first item goes. It is stored before anything is written.
    fn begin(&self, handle: &mut Self::Handle) -> impl Future<Output = Result<Self::Mark>> + Send;

    /// Writes items in their order, behind a mark. Returns the mark behind them.
    ///
    /// Errors of a kind that does not pass by itself (`Invalid`, `TooLarge`, `Conflict` and others) blame the items.
    fn write(
        &self,
        handle: &mut Self::Handle,
        mark: &Self::Mark,
        items: &[Numbered<Self::Item>],
    ) -> impl Future<Output = Result<Self::Mark>> + Send;

    /// Lets go of what is outside.
    fn close(&self, handle: Self::Handle) -> impl Future<Output = ()> + Send {
        drop(handle);
        ready(())
    }

    /// How many bytes an item counts: as many as it is stored with, unless told otherwise. For that it is encoded once more when it
    /// comes and whenever it is written; a writer that knows without doing so says it here.
    fn size(&self, item: &Self::Item) -> usize {
        // What cannot be encoded is refused when it is to be stored.
        mainstay::contract::encode(item).map_or(size_of::<Self::Item>(), |bytes| bytes.len())
    }

    /// Gives the node [sections](mainstay::node::settings::Section) of settings of its own, where it is served. That of the queues
    /// is there already.
    fn sections(&self, node: NodeBuilder) -> NodeBuilder {
        node
    }

    /// Takes what operators have set in its own sections: before anything is opened, once for each actor that becomes active.
    ///
    /// # Errors
    /// What keeps it from being used like this.
    fn configure(&self, settings: &Settings) -> Result<()> {
        let _ = settings;
        Ok(())
    }

    /// How its actors batch, unless operators have set it otherwise.
    fn settings(&self) -> DurableSettings {
        DurableSettings::default()
    }
}

/// An item with the number that it has for ever, in the line of its actor.
#[derive(Debug)]
pub struct Numbered<T> {
    /// Whose number it is. It changes when the actor has lost its state, and numbers are given again: the actor was deleted, or
    /// restored from a backup. What still waited in the backup may then be written a second time, and nothing is taken for
    /// something that was written before.
    pub lineage: FenceLineage,
    /// Its place in the line. Numbers begin at 0 and have no gaps; those of items that were set aside are not written.
    pub number: u64,
    /// The item.
    pub item: Arc<T>,
}

impl<T> Clone for Numbered<T> {
    fn clone(&self) -> Self {
        Self { lineage: self.lineage, number: self.number, item: self.item.clone() }
    }
}
