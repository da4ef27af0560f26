//! What an error of PostgreSQL means to the writer.

use std::error::Error as _;

use mainstay::{Error, ErrorKind};
use tokio_postgres::error::{DbError, Severity, SqlState};

/// What may have happened when the connection goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certainty {
    /// Nothing: nothing was committed yet. Or it may have, and does no harm when it happens again.
    Repeatable,
    /// The commit was on its way.
    Unknown,
}

/// An error of PostgreSQL as ours; its cause has the server's own words.
pub(super) fn failure(what: &str, cause: tokio_postgres::Error, certainty: Certainty) -> Error {
    let kind = kind(cause.code(), certainty);
    let details = match cause.as_db_error() {
        Some(error) => details(error),
        None => "the connection is gone".to_owned(),
    };
    let remedy = match kind {
        ErrorKind::Retry => ": it is opened again, try again",
        ErrorKind::OutcomeUnknown => ": look whether the rows are there, or give them a key (`once_by`)",
        ErrorKind::Fatal => ": correct the table, the rights or the settings",
        _ => "",
    };
    Error::new(kind, format!("{what} failed ({details}){remedy}")).with_source(cause)
}

/// True if the session is of no more use after the error.
pub(super) fn ends_session(error: &Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<tokio_postgres::Error>());
    match cause.map(|cause| (cause, cause.as_db_error())) {
        // A statement has failed and the session goes on, unless the server says that it does not.
        Some((_, Some(reply))) => {
            let is_over = matches!(reply.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
            is_over || error.kind() == ErrorKind::Fatal
        }
        Some((_, None)) => true,
        None => matches!(error.kind(), ErrorKind::NotPrimary { .. } | ErrorKind::OutcomeUnknown | ErrorKind::Fatal),
    }
}

fn details(error: &DbError) -> String {
    let mut text = format!("SQLSTATE {}", error.code().code());
    for (what, name) in [("constraint", error.constraint()), ("column", error.column()), ("table", error.table())] {
        if let Some(name) = name {
            text.push_str(&format!(", {what} {name:?}"));
        }
    }
    text
}

fn kind(code: Option<&SqlState>, certainty: Certainty) -> ErrorKind {
    let Some(code) = code else { return lost(certainty) };
    let class = code.code().get(..2).unwrap_or_default();
    match (class, code) {
        (_, &SqlState::DISK_FULL) => ErrorKind::StorageFull,
        (_, &SqlState::QUERY_CANCELED) => ErrorKind::Timeout,
        (_, &SqlState::UNIQUE_VIOLATION | &SqlState::EXCLUSION_VIOLATION) => ErrorKind::Conflict,
        (_, &SqlState::LOCK_NOT_AVAILABLE | &SqlState::READ_ONLY_SQL_TRANSACTION) => ErrorKind::Retry,
        // Of the server's shutdown we may hear after it has committed.
        ("57", _) => lost(certainty),
        // The session before it began; what there is too little of; serialization and deadlocks; the server's disk.
        ("08" | "53" | "40" | "58", _) => ErrorKind::Retry,
        // What the rows are to blame for: data, constraints, checks of views, triggers.
        ("22" | "23" | "44" | "P0", _) => ErrorKind::Invalid,
        ("54", _) => ErrorKind::TooLarge,
        _ => ErrorKind::Fatal,
    }
}

fn lost(certainty: Certainty) -> ErrorKind {
    match certainty {
        Certainty::Repeatable => ErrorKind::Retry,
        Certainty::Unknown => ErrorKind::OutcomeUnknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_mean_what_a_caller_can_do() {
        let states = [
            ("53300", ErrorKind::Retry),
            ("57P01", ErrorKind::Retry),
            ("57P03", ErrorKind::Retry),
            ("40001", ErrorKind::Retry),
            ("40P01", ErrorKind::Retry),
            ("55P03", ErrorKind::Retry),
            ("25006", ErrorKind::Retry),
            ("08006", ErrorKind::Retry),
            ("57014", ErrorKind::Timeout),
            ("53100", ErrorKind::StorageFull),
            ("23505", ErrorKind::Conflict),
            ("23502", ErrorKind::Invalid),
            ("23514", ErrorKind::Invalid),
            ("22021", ErrorKind::Invalid),
            ("P0001", ErrorKind::Invalid),
            ("54000", ErrorKind::TooLarge),
            ("42P01", ErrorKind::Fatal),
            ("28P01", ErrorKind::Fatal),
        ];
        for (code, expected) in states {
            assert_eq!(kind(Some(&SqlState::from_code(code)), Certainty::Repeatable), expected, "{code}");
        }
        assert_eq!(kind(None, Certainty::Repeatable), ErrorKind::Retry);
    }

    #[test]
    fn a_commit_that_was_not_answered_is_not_repeated() {
        assert_eq!(kind(None, Certainty::Unknown), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(Some(&SqlState::ADMIN_SHUTDOWN), Certainty::Unknown), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(Some(&SqlState::T_R_SERIALIZATION_FAILURE), Certainty::Unknown), ErrorKind::Retry);
    }
}
