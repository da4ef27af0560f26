//! Rows as bytes.

use csv::{Writer, WriterBuilder};
use mainstay::{Error, Result};
use serde::Serialize;

/// How many bytes a row is expected to have, before there is any to know by.
const ROW_BYTES_EXPECTED: usize = 64;

/// The rows of a batch, without a header.
///
/// # Errors
/// `Invalid` for a row that is no row, by its place in the batch.
pub(super) fn encode<T: Serialize>(rows: &[T]) -> Result<Vec<u8>> {
    let mut writer = writer(HeaderLine::Without, rows.len() * ROW_BYTES_EXPECTED);
    for (place, row) in rows.iter().enumerate() {
        writer.serialize(row).map_err(|error| {
            let text = format!("row {place} of {} cannot be written as CSV: use a flat struct or a tuple", rows.len());
            Error::invalid(text).with_source(error)
        })?;
    }
    finished(writer)
}

/// The line of column names that goes before rows like this one; empty if they have no names.
///
/// # Errors
/// `Invalid` if it is no row.
pub(super) fn header<T: Serialize>(row: &T) -> Result<Vec<u8>> {
    let mut writer = writer(HeaderLine::With, 2 * ROW_BYTES_EXPECTED);
    writer.serialize(row).map_err(|error| {
        Error::invalid("a row cannot be written as CSV: use a flat struct or a tuple").with_source(error)
    })?;
    let mut both = finished(writer)?;
    both.truncate(both.len() - encode(std::slice::from_ref(row))?.len());
    Ok(both)
}

enum HeaderLine {
    With,
    Without,
}

fn writer(header: HeaderLine, capacity: usize) -> Writer<Vec<u8>> {
    let has_header = matches!(header, HeaderLine::With);
    WriterBuilder::new().has_headers(has_header).from_writer(Vec::with_capacity(capacity))
}

fn finished(writer: Writer<Vec<u8>>) -> Result<Vec<u8>> {
    writer
        .into_inner()
        .map_err(|error| Error::fatal("rows cannot be gathered in memory").with_source(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Row {
        name: &'static str,
        count: Option<f64>,
    }

    #[test]
    fn rows_are_quoted_and_a_header_has_the_names() {
        let rows = [Row { name: "a,\"b\"\nc", count: Some(1.5) }, Row { name: "", count: None }];
        assert_eq!(header(&rows[0]).unwrap(), b"name,count\n");
        assert_eq!(encode(&rows).unwrap(), b"\"a,\"\"b\"\"\nc\",1.5\n,\n");
        assert_eq!(header(&(1, "x")).unwrap(), b"");
        assert_eq!(encode(&[(1, "x")]).unwrap(), b"1,x\n");
    }

    #[test]
    fn what_is_no_row_is_named_by_its_place() {
        use std::collections::BTreeMap;
        let error = encode(&[BTreeMap::from([("a", 1)])]).unwrap_err();
        assert_eq!(error.kind(), mainstay::ErrorKind::Invalid);
        assert!(error.to_string().starts_with("row 0 of 1"), "{error}");
    }
}
