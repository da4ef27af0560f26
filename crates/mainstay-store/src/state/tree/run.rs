/// Whether what comes into a node comes in order, each right behind the one before: then more of it will come there, and the
/// node is to be left full when it is cut in two.
///
/// The last place of a tree is not the only one where that happens: every collection has its own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    /// The place behind what came last.
    next: u8,
    /// How many have come in order.
    len: u8,
}

impl Run {
    /// Notes that something came at a place.
    #[inline]
    pub(super) fn note(&mut self, place: usize) {
        self.len = if place == usize::from(self.next) { self.len.saturating_add(1) } else { 1 };
        // Nodes have fewer places than a byte counts.
        self.next = place as u8 + 1;
    }

    /// Whether at least so many have come in order, and what comes at a place is the next.
    pub(super) fn goes_on(&self, place: usize, len_min: usize) -> bool {
        place == usize::from(self.next) && usize::from(self.len) >= len_min
    }
}
