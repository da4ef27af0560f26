//! The formats of this crate: which versions are read, and which is written. `docs/internals/node-log.md` and
//! `docs/internals/state-store.md` have their bytes.

use mainstay_core::format::Format;

/// The segments of the node log. The blocks and batches in a segment are of its version.
///
/// Version 1 is aligned to 512 bytes and padded with zeros.
pub(crate) const SEGMENT: Format = Format::new("segment of a node log", 1..=2);

/// The file of a disk store: head, blocks, tables and records.
pub(crate) const STORE_FILE: Format = Format::new("state store", 1..=1);

/// The stream in which a whole state travels.
pub(crate) const EXPORT: Format = Format::new("chunk of an export", 1..=1);

/// The write batch. A batch that version 1 can express is written in version 1.
///
/// Batches are parts of commands, which are replicated: whoever adds a version here gives the command one, too.
pub const WRITE_BATCH: Format = Format::new("write batch", 1..=2);
