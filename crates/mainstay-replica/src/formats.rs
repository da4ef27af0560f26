//! The formats of this crate: which versions are read, and which is written. `docs/internals/replica.md` has their bytes.
//!
//! What must be understood as a whole is refused if it has more than its version knows: log entries, commands, hard states,
//! compaction marks and identities. Messages and state marks may have more at their end, which is skipped.

use mainstay_core::format::Format;
use mainstay_store::formats::WRITE_BATCH;

/// The file that says whose data a folder holds.
///
/// Version 1 named no cluster, and every persisted replica had the id of its node. Version 2 named no program. Version 3 had one
/// replica of each set, in the group of the set's number, and counted no starts.
pub(crate) const IDENTITY: Format = Format::new("identity file", 1..=4);

/// What a replica must not forget: the vote that it gave.
pub(crate) const HARD_STATE: Format = Format::new("hard state", 1..=1);

/// Whose the node log is: the hard state of a group of its own.
pub(crate) const LOG_OWNER: Format = Format::new("owner of the node log", 1..=1);

/// The last entry that was dropped from the front of a log.
pub(crate) const COMPACTION_MARK: Format = Format::new("compaction mark", 1..=1);

/// An entry, in the node log and in an append.
pub(crate) const LOG_ENTRY: Format = Format::new("log entry", 1..=1);

/// What an entry carries of commits. Its version speaks for the write batches in it, too, so that one byte tells whether a
/// replica can apply it.
pub(crate) const COMMAND: Format = Format::new("command", 1..=1);

/// The note of a state's mark.
pub(crate) const STATE_MARK: Format = Format::new("state mark", 1..=1);

/// Requests and answers. Version 1 named no cluster, and no program that sent it had a network. Version 2 has no answer for
/// versions that are not known.
pub(crate) const MESSAGE: Format = Format::new("message", 2..=3);

const _: () = assert!(
    COMMAND.newest() == 1 && WRITE_BATCH.newest() == 2,
    "a replica that reads a version of the command reads all write batches in it: a new version of one is one of the other"
);
