//! The files of this crate: which versions are read, and which is written. `docs/internals/csv-sink.md` has their bytes.

use mainstay::format::Format;

/// Who may write the rows of a key. Version 1 has a token and a generation only.
pub(crate) const CSV_TOKEN: Format = Format::new("token of CSV files", 1..=2);

/// How far the rows of a key are whole. Version 1 does not say from where on a file is read when it is opened.
pub(crate) const CSV_HINT: Format = Format::new("note of CSV files", 1..=2);
