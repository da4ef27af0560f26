//! The formats of this crate: which versions are read, and which is written. `docs/internals/control.md` has their bytes.
//!
//! All of them may have fields that a later program has added; these are skipped, and in control records kept when the record
//! is written again.

use mainstay_core::format::Format;

/// A record of the control set.
pub(crate) const CONTROL_RECORD: Format = Format::new("control record", 1..=1);

/// A request to the controller, and its answer.
pub(crate) const CONTROL_MESSAGE: Format = Format::new("message of the controller", 1..=1);

/// A request to a replica, with the set that it is for.
pub(crate) const REPLICA_MESSAGE: Format = Format::new("message to a replica", 1..=1);

/// The file that says where other nodes are.
pub(crate) const PEERS_FILE: Format = Format::new("peers file", 1..=1);
