use std::error::Error as StdError;

use super::{Error, ErrorKind, Result};

/// Turns the errors of others into an [`Error`], whose kind says what a caller can do and whose message says what was being done.
///
/// The other error becomes its [`source`](StdError::source), and is not repeated in the message: `Debug` and
/// [`Error::report`] show both. What is missing (`None`) has no source.
///
/// ```
/// use mainstay_core::{ErrorKind, OrError, Result};
///
/// fn price_list(path: &str) -> Result<String> {
///     std::fs::read_to_string(path)
///         .or_error_with(ErrorKind::Invalid, || format!("the price list {path:?} cannot be read: check its path"))
/// }
///
/// let error = price_list("nowhere.csv").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert_eq!(error.to_string(), "the price list \"nowhere.csv\" cannot be read: check its path");
/// assert!(std::error::Error::source(&error).is_some());
/// ```
pub trait OrError<T> {
    /// The value, or an error of this kind with this message.
    ///
    /// # Errors
    /// Where there is no value.
    fn or_error(self, kind: ErrorKind, message: impl Into<String>) -> Result<T>;

    /// The value, or an error of this kind with a message that is made only then.
    ///
    /// # Errors
    /// Where there is no value.
    fn or_error_with(self, kind: ErrorKind, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> OrError<T> for std::result::Result<T, E> {
    fn or_error(self, kind: ErrorKind, message: impl Into<String>) -> Result<T> {
        self.map_err(|error| Error::new(kind, message).with_source(error))
    }

    fn or_error_with(self, kind: ErrorKind, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::new(kind, message()).with_source(error))
    }
}

impl<T> OrError<T> for Option<T> {
    fn or_error(self, kind: ErrorKind, message: impl Into<String>) -> Result<T> {
        self.ok_or_else(|| Error::new(kind, message))
    }

    fn or_error_with(self, kind: ErrorKind, message: impl FnOnce() -> String) -> Result<T> {
        self.ok_or_else(|| Error::new(kind, message()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_others_is_the_cause_and_no_part_of_the_message() {
        let error = "x".parse::<u8>().or_error(ErrorKind::Invalid, "the age is no number: give years").unwrap_err();
        assert_eq!(error.to_string(), "the age is no number: give years");
        assert!(error.source().unwrap().is::<std::num::ParseIntError>());
        assert_eq!(format!("{error:?}"), "Invalid: the age is no number: give years: invalid digit found in string");
        assert_eq!("7".parse::<u8>().or_error(ErrorKind::Invalid, "never").unwrap(), 7);

        let own: Result<()> = Err(Error::new(ErrorKind::Timeout, "nobody answered"));
        let error = own.or_error_with(ErrorKind::Retry, || "the bank is busy".to_owned()).unwrap_err();
        assert_eq!((error.kind(), error.source().unwrap().to_string()), (ErrorKind::Retry, "nobody answered".into()));
        let text: std::result::Result<(), &str> = Err("a text");
        assert_eq!(text.or_error(ErrorKind::Fatal, "no").unwrap_err().report().to_string(), "no: a text");
        let missing = None::<u8>.or_error(ErrorKind::NotFound, "there is no such seat").unwrap_err();
        assert!(missing.source().is_none() && missing.kind() == ErrorKind::NotFound);
    }
}
