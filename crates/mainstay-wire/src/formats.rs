//! The formats of this crate that outlive a connection: which versions are read, and which is written. `docs/internals/wire.md` has
//! their bytes. What is said on a connection has the version that both ends have agreed on.

use mainstay_core::format::Format;

/// What a new node is given to join a cluster.
pub(crate) const JOIN_TOKEN: Format = Format::new("join token", 1..=1);
