//! One failure of a batch, told to each of its callers.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use mainstay::Error;

/// The same error for one of several who are to have it.
pub(crate) fn shared(error: &Arc<Error>) -> Error {
    let copy = Error::new(error.kind(), error.to_string());
    match error.source() {
        Some(_) => copy.with_source(Cause(error.clone())),
        None => copy,
    }
}

/// The cause of an error that several have.
#[derive(Debug)]
struct Cause(Arc<Error>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.source().map_or(Ok(()), |cause| fmt::Display::fmt(cause, f))
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source().and_then(StdError::source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_the_whole_error() {
        let root = Error::corrupt("checksum").with_source("bit 7");
        let error = Arc::new(Error::fatal("the file is closed").with_source(root));
        assert_eq!(format!("{:?}", shared(&error)), format!("{error:?}"));
        let bare = Arc::new(Error::invalid("too long"));
        assert!(shared(&bare).source().is_none());
    }
}
