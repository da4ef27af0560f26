use mainstay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::owner::{Fence, FenceLineage, Holder};

/// The right to write a thing outside: what it remembers of its last opening, and what every opening comes with.
///
/// It is more than a [`Fence`]: that alone tells an owner from its predecessors, but not from another holder that counts by
/// itself and was given the same thing by mistake.
///
/// ```
/// use mainstay::prelude::*;
/// use mainstay::governance::owner::{Claim, Fence, Opening};
///
/// let mut last: Option<Claim> = None; // kept by the resource, next to what it guards
/// let first = Opening::new("journal", Fence::new(1)).claim();
/// first.open(&mut last)?;
/// first.check(last.as_ref())?; // before each write
///
/// let other = Opening::new("journal", Fence::new(2)).held_by("another(\"journal\")").claim();
/// let refused = other.open(&mut last).unwrap_err();
/// assert!(refused.to_string().contains("a program without an actor"));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Who it is.
    pub holder: Holder,
    /// The token of the opening.
    pub fence: Fence,
    /// The line of tokens that it belongs to.
    #[serde(rename = "life")]
    pub lineage: FenceLineage,
}

impl Claim {
    /// What a resource does when it is opened: refuses a claim that is not of the holder, or comes with a token that is not larger
    /// than all before, and remembers the claim otherwise. `last` is to be kept and changed under the same lock, or in the
    /// same transaction, as what it guards.
    ///
    /// A program that has no lineage may come with the same token again.
    ///
    /// # Errors
    /// `Fatal` for another holder, naming both; `NotPrimary` for a token that was seen already, which
    /// [says](Fence::remembered) what the highest is.
    pub fn open(&self, last: &mut Option<Self>) -> Result<()> {
        if let Some(last) = last {
            self.refuse_other(last)?;
            let is_again =
                self.fence == last.fence && self.lineage == last.lineage && self.lineage == FenceLineage::NONE;
            if self.fence <= last.fence && !is_again {
                return Err(self.fence.stale(last.fence));
            }
        }
        *last = Some(self.clone());
        Ok(())
    }

    /// What a resource does before it is written: refuses a claim that was not the last to open it.
    ///
    /// # Errors
    /// As [`open`](Claim::open).
    pub fn check(&self, last: Option<&Self>) -> Result<()> {
        match last {
            Some(last) if last == self => Ok(()),
            Some(last) => {
                self.refuse_other(last)?;
                if self.fence <= last.fence {
                    return Err(self.fence.stale(last.fence));
                }
                Err(self.forgotten())
            }
            None => Err(self.forgotten()),
        }
    }

    fn refuse_other(&self, last: &Self) -> Result<()> {
        if self.holder == last.holder {
            return Ok(());
        }
        Err(Error::fatal(format!(
            "it belongs to {}, and {} is another holder: two must not write one thing, give one of them another key",
            last.holder, self.holder
        )))
    }

    fn forgotten(&self) -> Error {
        let Self { holder, fence, .. } = self;
        let text =
            format!("fencing token {fence} of {holder} is not on record any more: it is opened again, try again");
        Error::new(ErrorKind::NotPrimary { hint: None }, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(holder: &str, fence: u64, lineage: u64) -> Claim {
        Claim { holder: holder.into(), fence: Fence::new(fence), lineage: FenceLineage::new(lineage) }
    }

    #[test]
    fn a_token_opens_once_and_writes_until_the_next() {
        let mut last = None;
        let first = claim("a", 3, 1);
        first.open(&mut last).unwrap();
        for seen in [claim("a", 3, 1), claim("a", 3, 2), claim("a", 2, 1)] {
            let error = seen.open(&mut last).unwrap_err();
            assert_eq!((error.is_retryable(), Fence::remembered(&error)), (true, Some(Fence::new(3))), "{seen:?}");
        }
        first.check(last.as_ref()).unwrap();
        assert!(claim("a", 3, 2).check(last.as_ref()).is_err());
        claim("a", 4, 2).open(&mut last).unwrap();
        assert_eq!(Fence::remembered(&first.check(last.as_ref()).unwrap_err()), Some(Fence::new(4)));
        assert!(claim("a", 5, 2).check(last.as_ref()).is_err() && first.check(None).is_err());
    }

    #[test]
    fn a_program_may_open_again_with_its_token_and_nobody_else_may() {
        let mut last = None;
        for _ in 0..2 {
            claim("program", 1, 0).open(&mut last).unwrap();
        }
        assert!(claim("program", 1, 5).open(&mut last).is_err());
    }

    #[test]
    fn another_is_refused_by_name_whatever_the_token() {
        let mut last = None;
        claim("a", 3, 1).open(&mut last).unwrap();
        for fence in [1, 3, 9] {
            let other = claim("b", fence, 1);
            let errors = [other.check(last.as_ref()).unwrap_err(), other.open(&mut last).unwrap_err()];
            for error in errors {
                assert_eq!((error.kind(), Fence::remembered(&error)), (ErrorKind::Fatal, None));
                assert!(error.to_string().starts_with("it belongs to a, and b is another holder"), "{error}");
            }
        }
        assert_eq!(last, Some(claim("a", 3, 1)));
    }
}
