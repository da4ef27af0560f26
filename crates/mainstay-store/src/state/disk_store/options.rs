use bytes::Bytes;

use crate::disk::OpenMode;

/// How a [`DiskStore`](super::DiskStore) uses memory and to whom it belongs.
///
/// ```
/// use mainstay_store::state::DiskStoreOptions;
///
/// let options = DiskStoreOptions { owner: "persisted-3".into(), ..DiskStoreOptions::default() };
/// assert_eq!(options.overlay_bytes_max, 4 * options.checkpoint_bytes);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskStoreOptions {
    /// Written into a new file and compared when it is opened, so that one replica never opens another's state. Up to
    /// 1,024 bytes.
    pub owner: Bytes,
    /// The memory for pages that were read from the file, and for those that a checkpoint is writing.
    pub cache_bytes_max: usize,
    /// From how many unsaved bytes on a checkpoint is due.
    pub checkpoint_bytes: u64,
    /// From how many unsaved bytes on no more should be committed until a checkpoint is done. The store itself applies
    /// whatever it is given, because what is committed can be neither refused nor delayed.
    pub overlay_bytes_max: u64,
    /// Whether a file that is missing is created, and whether one that is there is opened.
    pub mode: OpenMode,
}

/// How many unsaved bytes make a checkpoint due, unless the options say otherwise.
const CHECKPOINT_BYTES: u64 = 50 << 20;

/// How much may come in while a checkpoint is running, as a multiple of what makes it due.
const OVERLAY_PER_CHECKPOINT: u64 = 4;

impl Default for DiskStoreOptions {
    fn default() -> Self {
        Self {
            owner: Bytes::new(),
            cache_bytes_max: 64 << 20,
            checkpoint_bytes: CHECKPOINT_BYTES,
            overlay_bytes_max: OVERLAY_PER_CHECKPOINT * CHECKPOINT_BYTES,
            mode: OpenMode::Either,
        }
    }
}
