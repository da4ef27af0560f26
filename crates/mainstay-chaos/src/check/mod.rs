//! Is there a world in which everything that callers were told is true?
//!
//! Each promise has a judge of its own, which knows nothing of the others and of how the system works. A [`Verdict`] names what cannot be,
//! and what was not shown because nothing of the kind has happened.

mod banks;
mod counters;
mod errors;
mod journals;
mod registers;
mod tickers;
mod verdict;

#[cfg(test)]
mod tests;

use std::path::Path;

use mainstay::prelude::*;

use crate::history::History;
pub use verdict::Verdict;

/// Judges histories, and the journals that were written meanwhile.
///
/// # Errors
/// What keeps the journals from being read.
pub fn check(history: &History, journals: &Path) -> Result<Verdict> {
    let mut verdict = Verdict::of(history);
    registers::judge(history, &mut verdict);
    counters::judge(history, &mut verdict);
    banks::judge(history, &mut verdict);
    tickers::judge(history, &mut verdict);
    journals::judge(history, &journals::read(journals)?, &mut verdict);
    errors::judge(history, &mut verdict);
    Ok(verdict)
}
