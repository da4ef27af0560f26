//! What is said to the server. Names are quoted, and values never become part of a statement.

use mainstay::{Error, Result};
use tokio_postgres::types::{Kind, Type};

/// A name, or several parts of one, as it stands in a statement.
pub(super) fn quoted(name: &str) -> Result<String> {
    if name.is_empty() || name.contains('\0') {
        return Err(Error::invalid(format!("{name:?} names nothing in PostgreSQL: a name has letters, and no NUL")));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

/// The names that statements are made of, quoted.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) table: String,
    pub(super) columns: String,
    /// The columns by which a row is known, if there are any.
    pub(super) key: Option<String>,
    pub(super) fences: String,
}

/// Several names with commas.
pub(super) fn list(names: &[&str]) -> Result<String> {
    Ok(names.iter().map(|name| quoted(name)).collect::<Result<Vec<_>>>()?.join(", "))
}

impl Names {
    /// Prepared only, to learn the types of the columns.
    pub(super) fn types(&self) -> String {
        format!("SELECT {} FROM {}", self.columns, self.table)
    }

    pub(super) fn create_fences(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (resource text PRIMARY KEY, fence bigint NOT NULL, backend integer NOT NULL, \
             backend_start timestamptz)",
            self.fences
        )
    }

    /// Ends the session that an older opening of a resource ($1) has left, older than $2.
    ///
    /// A process number may have come round to somebody else: only with its time of start does it name a session.
    pub(super) fn evict(&self) -> String {
        format!(
            "SELECT count(pg_terminate_backend(a.pid)) FROM {} f JOIN pg_stat_activity a ON a.pid = f.backend AND \
             a.backend_start = f.backend_start WHERE f.resource = $1 AND f.fence < $2 AND a.usename = current_user AND \
             a.pid <> pg_backend_pid()",
            self.fences
        )
    }

    /// Makes $2 the token of $1, unless it was seen, or a higher one: then there is no row. Waits for a batch that is being written
    /// with the token before.
    pub(super) fn raise(&self) -> String {
        format!(
            "INSERT INTO {} AS f (resource, fence, backend, backend_start) SELECT $1, $2, pg_backend_pid(), (SELECT \
             a.backend_start FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()) ON CONFLICT (resource) DO UPDATE SET \
             fence = excluded.fence, backend = excluded.backend, backend_start = excluded.backend_start WHERE f.fence < \
             excluded.fence RETURNING f.fence",
            self.fences
        )
    }

    /// The highest token of $1.
    pub(super) fn highest(&self) -> String {
        format!("SELECT fence FROM {} WHERE resource = $1", self.fences)
    }

    /// A row if $2 is the token of $1, which then stays so until the transaction has ended.
    pub(super) fn hold(&self) -> String {
        format!("SELECT FROM {} WHERE resource = $1 AND fence = $2 FOR SHARE", self.fences)
    }

    pub(super) fn copy(&self) -> String {
        format!("COPY {} ({}) FROM STDIN BINARY", self.table, self.columns)
    }

    /// Writes rows that come as one array per column from $3 on, if $2 is the token of $1: looked at and held before the first
    /// row. The arrays are taken apart in their order, so that rows get into the table in it. Says how many rows it has
    /// written.
    pub(super) fn insert(&self, types: &[Type]) -> Result<String> {
        let Self { table, columns, .. } = self;
        let arrays = types.iter().zip(3..).map(|(kind, number)| {
            if let Kind::Array(_) = kind.kind() {
                return Err(Error::invalid(format!(
                    "a column of {table} is an array ({kind}): rows that are known by a key have none, use jsonb"
                )));
            }
            Ok(format!("${number}::{}.{}[]", quoted(kind.schema())?, quoted(kind.name())?))
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?.join(", ");
        Ok(format!("INSERT INTO {table} ({columns}) SELECT * FROM unnest({arrays}) WHERE EXISTS ({})", self.hold()))
    }

    /// The same, but rows whose key is there are left out, and not counted.
    pub(super) fn insert_missing(&self, key: &str, types: &[Type]) -> Result<String> {
        Ok(format!("{} ON CONFLICT ({key}) DO NOTHING", self.insert(types)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_what_is_no_name_is_refused() {
        assert_eq!(quoted("events").unwrap(), "\"events\"");
        assert_eq!(quoted("a\"; DROP TABLE b; --").unwrap(), "\"a\"\"; DROP TABLE b; --\"");
        assert_eq!(list(&["id", "Weird Name"]).unwrap(), "\"id\", \"Weird Name\"");
        assert!(quoted("").is_err() && quoted("a\0b").is_err());
    }
}
