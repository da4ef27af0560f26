use std::fmt;

use mainstay_core::Error;

use super::origin::Origin;

/// How many problems one error lists.
const PROBLEMS_SHOWN_MAX: usize = 20;

/// Something in the settings that cannot be, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) place: Origin,
    /// What is wrong and what is allowed, naming the key.
    pub(crate) text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// All problems in one error, so that they can be mended in one go.
pub(crate) fn refusal(problems: &[Problem]) -> Error {
    let mut lines: Vec<_> = problems.iter().take(PROBLEMS_SHOWN_MAX).map(ToString::to_string).collect();
    if let Some(more) = problems.len().checked_sub(PROBLEMS_SHOWN_MAX).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    Error::invalid(lines.join("\n"))
}
