//! The messages of this crate: which versions are read, and which is written. `docs/internals/remote-calls.md` has their bytes.

use mainstay_core::format::Format;

/// A call on its way to another process.
pub(crate) const CALL_REQUEST: Format = Format::new("call of another process", 1..=1);

/// The answer of a call on its way back.
pub(crate) const CALL_REPLY: Format = Format::new("answer of another process", 1..=1);
