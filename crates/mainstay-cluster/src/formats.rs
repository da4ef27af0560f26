//! The formats of this crate: which versions are read, and which is written. `docs/internals/control.md` has their bytes.
//!
//! All of them may have fields that a later program has added; these are skipped, and in control records kept when the record
//! is written again.

use mainstay_core::format::Format;

/// A record of the control set.
pub(crate) const CONTROL_RECORD: Format = Format::new("control record", 1..=1);
