use bytes::Bytes;

use crate::disk::OpenMode;

/// How a [`DiskStore`](super::DiskStore) uses memory and to whom it belongs.
///
/// ```
/// use mainstay_store::state::DiskStoreOptions;
///
/// let options = DiskStoreOptions { owner: "persisted-3".into(), ..DiskStoreOptions::default() };
/// assert_eq!(options.cache_bytes_max, 64 << 20);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskStoreOptions {
    /// Written into a new file and compared when it is opened, so that one replica never opens another's state. Up to
    /// 1,024 bytes.
    pub owner: Bytes,
    /// The memory for pages that were read from the file, and for those that a checkpoint is writing. An import under way has
    /// as much for its own file; and after an import, or a failed checkpoint, snapshots from before keep what they have
    /// of it until they are dropped.
    pub cache_bytes_max: usize,
    /// Whether a file that is missing is created, and whether one that is there is opened.
    pub mode: OpenMode,
}

impl Default for DiskStoreOptions {
    fn default() -> Self {
        Self { owner: Bytes::new(), cache_bytes_max: 64 << 20, mode: OpenMode::Either }
    }
}
