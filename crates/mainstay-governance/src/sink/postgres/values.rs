use bytes::{BufMut as _, BytesMut};
use mainstay::{Error, ErrorKind, Result};
use tokio_postgres::types::{IsNull, ToSql, Type};

use super::Row;

/// The most rows of one batch.
pub(super) const ROWS_MAX: usize = 1 << 20;

/// The most bytes of one batch as they are sent: far below what a message of PostgreSQL may have, which is a gibibyte.
pub(super) const BYTES_MAX: usize = 256 << 20;

/// What says that a value is NULL, where its length would stand.
const NULL: i32 = -1;

/// Takes the values of a row, in the order of its columns.
pub struct Values<'a> {
    columns: &'a mut [Column],
    next: usize,
    failure: Option<Error>,
}

impl Values<'_> {
    /// Adds the value of the next column.
    pub fn push(&mut self, value: &(dyn ToSql + Sync)) -> &mut Self {
        if self.failure.is_none() {
            let column = self.columns.get_mut(self.next);
            self.failure = column.and_then(|column| column.push(value).err());
            self.next += 1;
        }
        self
    }
}

/// All values of one column, encoded one behind the other: the length of each, and its bytes.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    pub(super) bytes: BytesMut,
    pub(super) has_null: bool,
}

impl Column {
    fn push(&mut self, value: &(dyn ToSql + Sync)) -> Result<()> {
        let start = self.bytes.len();
        self.bytes.put_i32(NULL);
        let is_null = value.to_sql_checked(&self.kind, &mut self.bytes).map_err(|cause| {
            let message = format!("column {:?} takes {}: hand over a value that can be one", self.name, self.kind);
            Error::invalid(message).with_source(cause)
        })?;
        match is_null {
            IsNull::Yes => self.has_null = true,
            IsNull::No => {
                let length = self.bytes.len() - start - size_of::<i32>();
                let length = i32::try_from(length).map_err(|_| too_large())?;
                self.bytes[start..start + size_of::<i32>()].copy_from_slice(&length.to_be_bytes());
            }
        }
        Ok(())
    }
}

/// Encodes rows, column by column.
pub(super) fn encode<R: Row>(types: &[Type], rows: &[R]) -> Result<Vec<Column>> {
    if rows.len() > ROWS_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("{} rows in a batch: use at most {ROWS_MAX}", rows.len())));
    }
    let columns = R::COLUMNS.iter().zip(types);
    let mut columns: Vec<Column> = columns
        .map(|(name, kind)| Column { name, kind: kind.clone(), bytes: BytesMut::new(), has_null: false })
        .collect();
    for (number, row) in rows.iter().enumerate() {
        let mut values = Values { columns: &mut columns, next: 0, failure: None };
        row.put(&mut values);
        let Values { next, failure, .. } = values;
        if let Some(failure) = failure {
            return Err(failure.about(format_args!("row {number} of {} cannot be sent", rows.len())));
        }
        if next != R::COLUMNS.len() {
            let message = format!("`put` of a row of {} pushed {next} values for {:?}", R::SERVICE, R::COLUMNS);
            return Err(Error::invalid(message));
        }
        if columns.iter().map(|column| column.bytes.len()).sum::<usize>() > BYTES_MAX {
            return Err(too_large());
        }
    }
    Ok(columns)
}

fn too_large() -> Error {
    Error::new(ErrorKind::TooLarge, format!("the rows of a batch exceed {BYTES_MAX} bytes: make batches smaller"))
}

/// A column as PostgreSQL sends and takes an array of one dimension.
#[derive(Debug)]
pub(super) struct Array<'a> {
    pub(super) column: &'a Column,
    pub(super) rows: usize,
}

impl ToSql for Array<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        const DIMENSIONS: i32 = 1;
        const LOWER_BOUND: i32 = 1;
        out.put_i32(DIMENSIONS);
        out.put_i32(i32::from(self.column.has_null));
        out.put_u32(self.column.kind.oid());
        out.put_i32(i32::try_from(self.rows)?);
        out.put_i32(LOWER_BOUND);
        out.put_slice(&self.column.bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        // The statement is made from the same types.
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// Rows as the binary form of COPY has them.
pub(super) fn copy_form(columns: &[Column], rows: usize) -> Result<BytesMut> {
    /// The signature, no flags, no extension.
    const HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    const TRAILER: i16 = -1;
    let width = i16::try_from(columns.len()).map_err(|_| Error::invalid("a row has more columns than a table can"))?;
    let bytes: usize = columns.iter().map(|column| column.bytes.len()).sum();
    let mut out = BytesMut::with_capacity(HEADER.len() + bytes + (rows + 1) * size_of::<i16>());
    out.put_slice(HEADER);
    let mut rests: Vec<&[u8]> = columns.iter().map(|column| &column.bytes[..]).collect();
    for _ in 0..rows {
        out.put_i16(width);
        for rest in &mut rests {
            let (value, behind) = rest.split_at(encoded_length(rest));
            out.put_slice(value);
            *rest = behind;
        }
    }
    out.put_i16(TRAILER);
    Ok(out)
}

/// How many bytes the first value has, its length included.
fn encoded_length(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk().map_or(NULL, |length| i32::from_be_bytes(*length));
    // NULL has none.
    (size_of::<i32>() + usize::try_from(length).unwrap_or(0)).min(bytes.len())
}
