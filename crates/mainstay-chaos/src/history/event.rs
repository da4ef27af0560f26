use mainstay::prelude::*;
use serde::{Deserialize, Serialize};

use crate::action::{Action, Answer};

/// The version of the format. A reader refuses another one.
pub const VERSION: u32 = 1;

/// The first line of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The [version](VERSION) of the format.
    pub history: u32,
    /// The number of the load: its operations have no number of another.
    pub run: u32,
    /// The time of day at which it began, in nanoseconds; the times of events count from there.
    pub began_ns: u64,
}

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, in nanoseconds since the beginning of the load.
    pub at: u64,
    /// The number of the operation.
    pub op: u64,
    /// What has happened.
    #[serde(flatten)]
    pub phase: Phase,
}

/// What has become of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It is asked for.
    Invoke(Action),
    /// It has happened, and was answered.
    Ok(Answer),
    /// It has not happened, and will not.
    Fail(Failure),
    /// It may have happened, or may happen later.
    Unknown(Failure),
}

/// Why an operation has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of the error.
    pub kind: String,
    /// Its text, with its causes.
    pub text: String,
}

impl Phase {
    /// What an outcome says about an operation.
    pub fn of(outcome: Result<Answer>) -> Self {
        match outcome {
            Ok(answer) => Self::Ok(answer),
            Err(error) => {
                let kind = match error.kind() {
                    ErrorKind::NotPrimary { .. } => "NotPrimary".to_owned(),
                    kind => format!("{kind:?}"),
                };
                let failure = Failure { kind, text: error.report().to_string() };
                match error.kind() {
                    ErrorKind::OutcomeUnknown | ErrorKind::Fatal => Self::Unknown(failure),
                    _ => Self::Fail(failure),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_leaves_it_open_is_unknown_and_others_are_failures() {
        let phase = |kind| Phase::of(Err(Error::new(kind, "text")));
        assert!(matches!(phase(ErrorKind::OutcomeUnknown), Phase::Unknown(_)));
        assert!(matches!(phase(ErrorKind::Fatal), Phase::Unknown(_)));
        let Phase::Fail(failure) = phase(ErrorKind::NotPrimary { hint: None }) else { panic!("it has not happened") };
        assert_eq!((failure.kind.as_str(), failure.text.as_str()), ("NotPrimary", "text"));
    }
}
