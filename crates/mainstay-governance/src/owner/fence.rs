use std::error::Error as _;
use std::fmt;

use mainstay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The fencing token of an opening: strictly larger for every opening by the same owner.
///
/// An owner that was cut off from the cluster may not know yet that another has taken its place. What is outside can tell
/// the two apart by their tokens: it keeps the highest that it has seen, opens for a larger one only, and lets nobody write with
/// a smaller one.
///
/// Tokens are counted in the state of the owner, which may be lost: it was deleted, a backup was restored, the cluster has a
/// new folder of data. Its next opening is then refused, and if the error says what the outside remembers
/// ([`remembered`](Fence::remembered)), as those made here do, the owner goes on from there. An outside that does not say so is
/// reached again when the owner, which raises its token by one for each try, has caught up.
///
/// A token tells an owner from its predecessors, not from somebody else who counts by himself: [`Claim`](crate::owner::Claim)
/// does both.
///
/// ```
/// use mainstay::prelude::*;
/// use mainstay::governance::owner::Fence;
///
/// let mut highest = Fence::NONE; // kept by the resource, next to what it guards
/// Fence::new(1).raise(&mut highest)?; // at an opening
/// Fence::new(1).admit(&mut highest)?; // at a write
/// Fence::new(2).raise(&mut highest)?; // another owner has opened it
/// let stale = Fence::new(1).admit(&mut highest).unwrap_err();
/// assert!(matches!(stale.kind(), ErrorKind::NotPrimary { .. }));
/// assert_eq!(Fence::remembered(&stale), Some(Fence::new(2)));
/// assert_eq!(highest, Fence::new(2));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(u64);

impl Fence {
    /// Smaller than that of any opening: nobody has opened it yet.
    pub const NONE: Self = Self(0);

    /// A token by its number, as a resource has stored it.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number, to be stored.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// What a resource does with the token of an opening: refuses it if it has seen it, or a higher one, and remembers it
    /// otherwise. `highest` is to be kept and changed under the same lock, or in the same transaction, as what it guards.
    ///
    /// A token that was seen is never that of a new opening: somebody else has it, or had it in a past that is not on record.
    ///
    /// # Errors
    /// `NotPrimary` if the token is stale: nothing is to happen in its name. It says what is [remembered](Fence::remembered).
    pub fn raise(self, highest: &mut Self) -> Result<()> {
        if self <= *highest {
            return Err(self.stale(*highest));
        }
        *highest = self;
        Ok(())
    }

    /// What a resource does with a token that it is written with: refuses it if it has seen a higher one, and remembers it
    /// otherwise. As [`raise`](Fence::raise) in all else.
    ///
    /// # Errors
    /// As [`raise`](Fence::raise).
    pub fn admit(self, highest: &mut Self) -> Result<()> {
        if self < *highest {
            return Err(self.stale(*highest));
        }
        *highest = self;
        Ok(())
    }

    /// The error of a resource that refuses this token because it remembers another: for one that compares by itself.
    pub fn stale(self, remembered: Self) -> Error {
        Error::new(
            ErrorKind::NotPrimary { hint: None },
            format!(
                "fencing token {self} is stale, because {remembered} has been seen: another owner has opened the resource \
                 since, call again to reach it"
            ),
        )
        .with_source(Remembered(remembered))
    }

    /// The token that a resource remembers, if an error of it, or one of its causes, says so.
    pub fn remembered(error: &Error) -> Option<Self> {
        let mut cause = error.source();
        while let Some(error) = cause {
            if let Some(Remembered(fence)) = error.downcast_ref() {
                return Some(*fence);
            }
            cause = error.source();
        }
        None
    }

    /// A refusal of a resource in other words, which says what is remembered as before.
    pub(crate) fn reworded(refusal: &Error, text: String) -> Error {
        let reworded = Error::new(refusal.kind(), text);
        match Self::remembered(refusal) {
            Some(fence) => reworded.with_source(Remembered(fence)),
            None => reworded,
        }
    }

    /// Refuses a token for an opening that is not above the one on record: two openings would have one token, and nothing
    /// outside could tell them apart.
    pub(crate) fn check_above(self, recorded: Self) -> Result<()> {
        if self > recorded {
            return Ok(());
        }
        Err(Error::fatal(format!(
            "fencing token {self} is not above {recorded}, which is on record: nothing was opened, report this as a defect"
        )))
    }

    /// The token of the next opening.
    pub(crate) fn next(self) -> Result<Self> {
        let next = self.0.checked_add(1).map(Self);
        next.ok_or_else(|| Error::fatal("the fencing tokens of this resource are used up: give it another key"))
    }
}

/// The cause of the error of a stale token.
#[derive(Debug)]
struct Remembered(Fence);

impl fmt::Display for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the highest token on record is {}", self.0)
    }
}

impl std::error::Error for Remembered {}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_rise_until_there_are_none_left() {
        let first = Fence::NONE.next().unwrap();
        assert!(first > Fence::NONE && first.next().unwrap() > first);
        assert_eq!(Fence::new(u64::MAX).next().unwrap_err().kind(), ErrorKind::Fatal);
    }

    #[test]
    fn an_opening_needs_a_token_above_the_recorded_one() {
        Fence::new(6).check_above(Fence::new(5)).unwrap();
        for reused in [5, 4] {
            let error = Fence::new(reused).check_above(Fence::new(5)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Fatal);
            assert!(error.to_string().contains(&format!("token {reused} is not above 5")), "{error}");
        }
    }

    #[test]
    fn a_smaller_token_is_refused_and_changes_nothing() {
        let mut highest = Fence::new(5);
        Fence::new(5).admit(&mut highest).unwrap();
        Fence::new(7).admit(&mut highest).unwrap();
        let error = Fence::new(6).admit(&mut highest).unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("token 6 is stale, because 7"), "{error}");
        assert_eq!(highest, Fence::new(7));
    }

    #[test]
    fn an_opening_needs_a_larger_token_and_a_refusal_says_what_is_remembered() {
        let mut highest = Fence::new(5);
        for seen in [4, 5] {
            let error = Fence::new(seen).raise(&mut highest).unwrap_err();
            let wrapped = Error::new(ErrorKind::Retry, "it cannot be opened").with_source(error);
            assert_eq!((Fence::remembered(&wrapped), highest), (Some(Fence::new(5)), Fence::new(5)));
        }
        Fence::new(6).raise(&mut highest).unwrap();
        assert_eq!((highest, Fence::remembered(&Error::invalid("no"))), (Fence::new(6), None));
    }
}
