use std::cell::Cell;

/// How long a way may be to be remembered: with full nodes, as long as one through a trillion entries.
const STEPS_MAX: usize = 7;

/// The way to an entry: the number of a child in each branch, and that of the entry in the leaf.
///
/// It is a hint: where it leads by now, in whatever tree, is seen by the key that is there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Way {
    steps: [u8; STEPS_MAX],
    len: u8,
}

thread_local! {
    /// The way to the entry that this thread has found last: what is read is often changed next.
    pub(super) static LAST_WAY: Cell<Way> = const { Cell::new(Way { steps: [0; STEPS_MAX], len: 0 }) };
}

impl Way {
    #[inline]
    pub(super) fn push(&mut self, place: usize) {
        if let Some(step) = self.steps.get_mut(usize::from(self.len)) {
            // Nodes have fewer places than a byte counts.
            *step = place as u8;
        }
        self.len = self.len.saturating_add(1);
    }

    /// The number of the entry, and those of the children on the way there; `None` if there is none, or one too long.
    #[inline]
    pub(super) fn steps(&self) -> Option<(&u8, &[u8])> {
        self.steps.get(..usize::from(self.len))?.split_last()
    }
}
