//! Keeps the failures of readers from redb.
//!
//! One failed read makes redb refuse everything until its file is opened anew: all other reads, and the commit of the
//! transaction that is being written. A block that is damaged and read again and again would end every checkpoint. So
//! the failure goes past redb: by unwinding, which at a read of a table leaves nothing behind, since redb holds no lock
//! there and has changed nothing. Where panics abort, redb hears of it, and its file is opened anew.

use std::cell::Cell;
use std::io;
use std::panic::resume_unwind;

use super::failure::shielded;

thread_local! {
    /// Set while this thread reads a table, and does not write.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// A failed read of the file on its way past redb.
pub(super) struct Unread(pub(super) io::Error);

/// Runs a read of a table. It fails with [`redb::Error::Io`] without redb knowing.
pub(super) fn reading<T>(run: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    let before = IS_READING.replace(true);
    let result = shielded(run);
    IS_READING.set(before);
    result
}

/// Takes the failure of a read past redb, if the thread is [reading]; otherwise redb is to be told.
pub(super) fn past_redb(error: io::Error) -> io::Error {
    if cfg!(panic = "unwind") && IS_READING.get() && !std::thread::panicking() {
        resume_unwind(Box::new(Unread(error)));
    }
    error
}
