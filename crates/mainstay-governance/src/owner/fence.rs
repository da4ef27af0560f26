use std::fmt;

use mainstay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The fencing token of an opening: strictly larger for every opening of the same resource key in the whole cluster.
///
/// An owner that was cut off from the cluster may not know yet that another has taken its place. What is outside can tell
/// the two apart by their tokens: it keeps the highest that it has seen, and refuses a smaller one.
///
/// ```
/// use mainstay::prelude::*;
/// use mainstay_governance::owner::Fence;
///
/// let mut highest = Fence::NONE; // kept by the resource, next to what it guards
/// Fence::new(1).admit(&mut highest)?;
/// Fence::new(2).admit(&mut highest)?; // another owner has opened it
/// let stale = Fence::new(1).admit(&mut highest).unwrap_err();
/// assert!(matches!(stale.kind(), ErrorKind::NotPrimary { .. }));
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

    /// What a resource does with a token: refuses it if it has seen a higher one, and remembers it otherwise. `highest` is to
    /// be kept and changed under the same lock, or in the same transaction, as what it guards.
    ///
    /// # Errors
    /// `NotPrimary` if the token is stale: nothing is to happen in its name.
    pub fn admit(self, highest: &mut Self) -> Result<()> {
        if self < *highest {
            return Err(Error::new(
                ErrorKind::NotPrimary { hint: None },
                format!(
                    "fencing token {self} is stale, because {highest} has been seen: another owner has opened the resource \
                     since, call again to reach it"
                ),
            ));
        }
        *highest = self;
        Ok(())
    }

    /// The token of the next opening.
    pub(crate) fn next(self) -> Result<Self> {
        let next = self.0.checked_add(1).map(Self);
        next.ok_or_else(|| Error::fatal("the fencing tokens of this resource are used up: give it another key"))
    }
}

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
    fn a_smaller_token_is_refused_and_changes_nothing() {
        let mut highest = Fence::new(5);
        Fence::new(5).admit(&mut highest).unwrap();
        Fence::new(7).admit(&mut highest).unwrap();
        let error = Fence::new(6).admit(&mut highest).unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("token 6 is stale, because 7"), "{error}");
        assert_eq!(highest, Fence::new(7));
    }
}
