use std::error::Error as StdError;
use std::fmt;

use mainstay::{Error, ErrorKind};

use super::entity::Entity;

/// How the text of a [`Moved`] begins. It is how one is known that comes from another process, which sends texts alone.
const MARK: &str = "moved: ";

/// What an error of kind `Conflict` has as its cause if an entity is not where it was when it was resolved. Nothing was
/// done: resolve it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    entity: Entity,
    version: u64,
}

impl Moved {
    pub(super) fn new(entity: Entity, version: u64) -> Self {
        Self { entity, version }
    }

    /// True if an error says that an entity has moved, wherever it comes from.
    pub fn is(error: &Error) -> bool {
        let causes = std::iter::successors(error.source(), |cause| (*cause).source());
        error.kind() == ErrorKind::Conflict && causes.into_iter().any(|cause| cause.to_string().starts_with(MARK))
    }

    /// The error that has this as its cause.
    pub(super) fn into_error(self, resource: &str) -> Error {
        let text = format!(
            "{} is not on {resource:?} any more, or never was: resolve it again (`Resolver::with` does so by itself)",
            self.entity
        );
        Error::new(ErrorKind::Conflict, text).with_source(self)
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}what was resolved of {} as of version {} does not hold", self.entity, self.version)
    }
}

impl StdError for Moved {}

#[cfg(test)]
mod tests {
    use mainstay::contract;

    use super::*;

    #[test]
    fn it_is_known_after_a_journey_and_nothing_else_is_taken_for_it() {
        let error = Moved::new(7.into(), 3).into_error("db1");
        assert!(Moved::is(&error));
        let travelled: Error = contract::decode(&contract::encode(&error).unwrap()).unwrap();
        assert!(Moved::is(&travelled));
        let wrapped = Error::new(ErrorKind::Conflict, "the job was refused").with_source(travelled);
        assert!(Moved::is(&wrapped));
        assert!(!Moved::is(&Error::new(ErrorKind::Conflict, "it exists already").with_source("another cause")));
        assert!(!Moved::is(&Error::invalid("x").with_source(Moved::new(7.into(), 3))));
    }
}
