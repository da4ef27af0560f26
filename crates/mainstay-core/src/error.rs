use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::id::NodeId;

mod or_error;
mod travel;

pub use or_error::OrError;

/// What can be done about damaged data of a node, for the end of a message.
pub const RESTORE: &str =
    "restore a copy of the whole data folder, or start with an empty one, which has nothing of what was stored";

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that tells the caller what to do about it.
///
/// [`kind`](Error::kind) is for the program, `Display` for the person (it names the thing and the remedy), and
/// [`source`](StdError::source) has the cause, which `Display` never repeats.
///
/// ```
/// use mainstay_core::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::TooLarge, "value of 9 MiB exceeds value_bytes_max of 8 MiB: split it");
/// assert_eq!(error.kind(), ErrorKind::TooLarge);
/// assert!(!error.is_retryable());
/// ```
///
/// It is as small as a pointer, so that a result costs little more than what it holds when nothing has failed. Clones share
/// their content, so that one failure can be told to many callers with all its causes.
#[derive(Clone)]
pub struct Error {
    account: Arc<Account>,
}

/// What there is to say of an [`Error`].
#[derive(Clone)]
struct Account {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What a caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A passing condition: the same call may succeed later.
    Retry,
    /// The thing does not exist.
    NotFound,
    /// The thing exists already, or changed since it was read.
    Conflict,
    /// The time limit passed; nothing was changed.
    Timeout,
    /// This replica is not the primary; `hint` is the node that is, where known. Nothing was changed.
    NotPrimary {
        /// The node that was primary when this was last heard of.
        hint: Option<NodeId>,
    },
    /// The change may or may not have happened. Read before you write it again, or use an idempotency key.
    OutcomeUnknown,
    /// A bounded queue is full. Nothing was changed; slow down and retry.
    Overloaded,
    /// The input exceeds a limit that the message names. Nothing was changed.
    TooLarge,
    /// The input is wrong; retrying it will not help.
    Invalid,
    /// The callee does not know the interface or the method: it runs another version of the program. Nothing was changed.
    Unsupported,
    /// What was asked for is not kept any more. Take a snapshot, and go on from there.
    TooOld,
    /// Stored or received bytes are damaged. They were not used.
    Corrupt,
    /// Stored or received bytes are of a version that this build does not read.
    UnknownVersion,
    /// The disk has no room for the change. Nothing was changed.
    StorageFull,
    /// This part of the system has stopped and must be reopened; the cause is in the message.
    Fatal,
}

impl Error {
    /// An error with a message for people: lower case, naming the thing and the remedy.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { account: Arc::new(Account { kind, message: message.into(), source: None }) }
    }

    /// The same error with its cause attached.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Arc::make_mut(&mut self.account).source = Some(Arc::from(source.into()));
        self
    }

    /// The same error with what it happened to before its message. For who passes an error on and knows more; its cause, if
    /// it has one, stays its cause.
    ///
    /// ```
    /// use mainstay_core::Error;
    ///
    /// let error = Error::invalid("7 is odd: give an even number").about("seat 12");
    /// assert_eq!(error.to_string(), "seat 12: 7 is odd: give an even number");
    /// ```
    #[must_use]
    pub fn about(mut self, what: impl fmt::Display) -> Self {
        let account = Arc::make_mut(&mut self.account);
        account.message = format!("{what}: {}", account.message);
        self
    }

    /// The message and all causes behind it on one line, for who shows an error to a person and does not look at
    /// [`source`](StdError::source).
    pub fn report(&self) -> impl fmt::Display + '_ {
        Report(self)
    }

    /// Bad input.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Damaged bytes.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// A part of the system that has stopped.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Fatal, message)
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.account.kind
    }

    /// True if the same call may succeed later and nothing has been changed by this one.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Retry | ErrorKind::Timeout | ErrorKind::NotPrimary { .. } | ErrorKind::Overloaded
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.account.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.account.kind, self.report())
    }
}

/// An error with its causes.
struct Report<'e>(&'e Error);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.account.message)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.account.source.as_deref().map(|e| e as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_the_message_alone_and_debug_adds_kind_and_causes() {
        let root = Error::corrupt("checksum of segment 3 is wrong");
        let error = Error::fatal("node log has stopped: reopen it").with_source(root);
        assert_eq!(error.to_string(), "node log has stopped: reopen it");
        assert_eq!(format!("{error:?}"), "Fatal: node log has stopped: reopen it: checksum of segment 3 is wrong");
        assert_eq!(error.source().unwrap().to_string(), "checksum of segment 3 is wrong");
        assert!(error.source().unwrap().source().is_none());
        assert_eq!(error.report().to_string(), "node log has stopped: reopen it: checksum of segment 3 is wrong");
        let error = error.about("set 7");
        assert_eq!(error.to_string(), "set 7: node log has stopped: reopen it");
        assert_eq!(error.kind(), ErrorKind::Fatal);
        assert_eq!(error.source().unwrap().to_string(), "checksum of segment 3 is wrong");
        let from_text = Error::invalid("bad").with_source("a plain text");
        assert_eq!(format!("{from_text:?}"), "Invalid: bad: a plain text");
    }

    #[test]
    fn only_kinds_that_changed_nothing_and_may_pass_are_retryable() {
        let kinds = [
            (ErrorKind::Retry, true),
            (ErrorKind::NotFound, false),
            (ErrorKind::Conflict, false),
            (ErrorKind::Timeout, true),
            (ErrorKind::NotPrimary { hint: Some(NodeId(1)) }, true),
            (ErrorKind::OutcomeUnknown, false),
            (ErrorKind::Overloaded, true),
            (ErrorKind::TooLarge, false),
            (ErrorKind::Invalid, false),
            (ErrorKind::Unsupported, false),
            (ErrorKind::TooOld, false),
            (ErrorKind::Corrupt, false),
            (ErrorKind::UnknownVersion, false),
            (ErrorKind::StorageFull, false),
            (ErrorKind::Fatal, false),
        ];
        for (kind, retryable) in kinds {
            let error = Error::new(kind, "x");
            assert_eq!((error.kind(), error.is_retryable()), (kind, retryable));
        }
    }

    #[test]
    fn a_result_is_little_larger_than_what_it_holds() {
        assert_eq!(size_of::<Result<i64>>(), 2 * size_of::<usize>());
    }

    #[test]
    fn a_clone_has_the_causes_and_can_be_told_apart() {
        let error = Error::fatal("node log has stopped").with_source(Error::corrupt("checksum is wrong"));
        let other = error.clone().about("set 7");
        assert_eq!(error.report().to_string(), "node log has stopped: checksum is wrong");
        assert_eq!(other.report().to_string(), "set 7: node log has stopped: checksum is wrong");
        assert_eq!(other.kind(), ErrorKind::Fatal);
    }

    #[test]
    fn an_error_can_cross_threads() {
        fn crosses<T: Send + Sync + 'static>() {}
        crosses::<Error>();
    }
}
