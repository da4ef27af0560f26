use mainstay::{Error, Result};

use crate::owner::{Fence, FenceLineage};

/// What an actor has been told of the tokens outside, which may be more than it has on record itself: its state was deleted, or
/// is that of a backup.
///
/// It tells the next token, which is to be committed before it is used. That is what keeps an owner whose time is over from
/// getting ahead of its successor: it is told of the larger token, and can not commit one that is larger still.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    seen: Fence,
}

impl Counter {
    /// Learns from an error of a resource, if it says what it remembers.
    pub(crate) fn hear(&mut self, error: &Error) {
        if let Some(seen) = Fence::remembered(error) {
            self.seen = self.seen.max(seen);
        }
    }

    /// The token of the next opening, and its lineage, after those on record. A new lineage begins with the first token, and when
    /// what is on record is not all that was.
    pub(crate) fn next(&self, fence: Fence, lineage: FenceLineage) -> Result<(Fence, FenceLineage)> {
        let went_back = self.seen != Fence::NONE && self.seen >= fence;
        if went_back {
            tracing::error!(
                on_record = fence.get(),
                outside = self.seen.get(),
                "what is outside has seen a larger fencing token than is on record here: the record was lost or restored, and counting goes on \
                 from there; or another node writes by the same name, which must not be"
            );
        }
        let lineage = if lineage == FenceLineage::NONE || went_back { FenceLineage::draw() } else { lineage };
        let next = fence.max(self.seen).next()?;
        next.check_above(fence)?;
        Ok((next, lineage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_on_from_the_larger_of_both_and_a_life_ends_with_the_record() {
        let mut counter = Counter::default();
        let (fence, lineage) = counter.next(Fence::NONE, FenceLineage::NONE).unwrap();
        assert!(fence == Fence::new(1) && lineage != FenceLineage::NONE);
        assert_eq!(counter.next(fence, lineage).unwrap(), (Fence::new(2), lineage));
        counter.hear(&Error::invalid("says nothing"));
        counter.hear(&fence.stale(Fence::new(200)));
        counter.hear(&fence.stale(Fence::new(100)));
        let (jumped, anew) = counter.next(fence, lineage).unwrap();
        assert!(jumped == Fence::new(201) && anew != lineage);
        assert_eq!(counter.next(jumped, anew).unwrap(), (Fence::new(202), anew), "once");
        counter.hear(&fence.stale(Fence::new(u64::MAX)));
        assert!(counter.next(fence, lineage).is_err());
    }
}
