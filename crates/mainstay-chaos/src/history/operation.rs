use mainstay_sim::linearizability::Moment;

use super::Failure;
use crate::action::{Action, Answer};

/// An operation from its beginning to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its number.
    pub op: u64,
    /// What was asked for.
    pub action: Action,
    /// When it was asked for. Moments are numbers of their own for each line of all histories.
    pub called: Moment,
    /// When it ended, or [`Moment::MAX`] if it may still happen.
    pub ended: Moment,
    /// How it ended.
    pub outcome: Outcome,
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has happened.
    Ok(Answer),
    /// It has not happened.
    Fail(Failure),
    /// It may have happened. Without a failure, its caller was killed.
    Unknown(Option<Failure>),
}

impl Operation {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Ok(answer) => Some(answer),
            _ => None,
        }
    }

    /// True if it may have happened: it was answered, or its outcome is not known.
    pub fn may_have_happened(&self) -> bool {
        !matches!(self.outcome, Outcome::Fail(_))
    }
}

/// All operations of all histories, in the order in which they were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The operations.
    pub operations: Vec<Operation>,
}

impl History {
    /// How many were answered.
    pub fn answered(&self) -> usize {
        self.operations.iter().filter(|operation| operation.answer().is_some()).count()
    }
}
