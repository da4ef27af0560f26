use std::cell::Cell;

use super::edit::{Edits, edited};
use crate::contract::fault::Fault;

/// The most trials of one kind for one value. Each reads and writes the whole of it.
const TRIALS_MAX: usize = 64;

/// Finds out by trial what the type does with a value, where nothing else tells.
pub(super) struct Trials<'a> {
    bytes: &'a [u8],
    /// Reads bytes as the type and writes them again, if the type takes them.
    rewrite: &'a dyn Fn(&[u8]) -> Option<Vec<u8>>,
    left: Cell<usize>,
}

impl<'a> Trials<'a> {
    pub(super) fn new(bytes: &'a [u8], rewrite: &'a dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Self {
        Self { bytes, rewrite, left: Cell::new(TRIALS_MAX) }
    }

    /// What the type makes of the value with some changes: `None` if it refuses it, or if there were too many trials.
    pub(super) fn rewritten(&self, edits: &Edits) -> Result<Option<Vec<u8>>, Fault> {
        let Some(left) = self.left.get().checked_sub(1) else { return Ok(None) };
        self.left.set(left);
        Ok((self.rewrite)(&edited(self.bytes, edits)?))
    }

    pub(super) fn are_used_up(&self) -> bool {
        self.left.get() == 0
    }
}
