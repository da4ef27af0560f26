//! A file outside of the system, which one owner may write: each opening has a fence, and the file refuses a stale one.
//!
//! What the file admits is in `NAME.journal`, a line each: who opened it, who wrote what. What it refuses is in
//! `NAME.refused`, and is no harm: an owner that was paused between two steps does not know that its time is over.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use mainstay::governance::owner::{Fence, Opening, OwnerRef, Resource};
use mainstay::prelude::*;
use serde::{Deserialize, Serialize};

/// How the owner of a file is called; its id is [`name`].
pub type JournalRef = OwnerRef<FencedFiles>;

/// How much of the end of a file is read to find its last line, which is far shorter.
const TAIL_BYTES: u64 = 4 << 10;

/// What the file outside has admitted or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The token of the owner.
    pub fence: u64,
    /// The line that it wrote; none if it opened the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// The name of a journal, which is the id of its owner.
pub fn name(journal: u32) -> String {
    format!("journal-{journal}")
}

/// Where a journal is.
pub fn path(folder: &Path, journal: u32) -> PathBuf {
    folder.join(name(journal)).with_extension("journal")
}

/// The files in a folder that all nodes share.
#[derive(Debug)]
pub struct FencedFiles {
    folder: PathBuf,
}

impl FencedFiles {
    /// Files in this folder, which must be there.
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }
}

/// A file that was opened with a fence.
#[derive(Debug, Clone)]
pub struct FencedFile {
    journal: PathBuf,
    refused: PathBuf,
    fence: Fence,
}

impl Resource for FencedFiles {
    const NAME: &'static str = "fenced-file";
    type Handle = FencedFile;
    type Job = u64;
    type Reply = u64;

    async fn open(&self, opening: &Opening) -> Result<FencedFile> {
        let file = self.folder.join(&opening.key);
        let file = FencedFile {
            journal: file.with_extension("journal"),
            refused: file.with_extension("refused"),
            fence: opening.fence,
        };
        blocking(move || file.admit(None).map(|()| file)).await
    }

    async fn run(&self, handle: &mut FencedFile, line: u64) -> Result<u64> {
        let file = handle.clone();
        blocking(move || file.admit(Some(line)).map(|()| file.fence.get())).await
    }
}

impl FencedFile {
    /// Writes an entry, unless a larger token was seen: looking and writing are one step for all processes.
    fn admit(&self, line: Option<u64>) -> Result<()> {
        let mut file = open(&self.journal)?;
        file.lock().or_error(ErrorKind::Retry, "the file cannot be locked: look at the folder of the journals")?;
        let mut highest = last_fence(&mut file, &self.journal)?;
        let admitted = match line {
            None => self.fence.raise(&mut highest),
            Some(_) => self.fence.admit(&mut highest),
        };
        let entry = JournalEntry { fence: self.fence.get(), line };
        match admitted {
            Ok(()) => append(&mut file, &entry),
            Err(stale) => {
                append(&mut open(&self.refused)?, &entry)?;
                Err(stale)
            }
        }
    }
}

fn open(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
    opened.or_error_with(ErrorKind::Retry, || {
        format!("{} cannot be opened: look at the folder of the journals", path.display())
    })
}

/// Writes an entry by one call of the system, so that a process that is killed leaves none in part.
fn append(file: &mut File, entry: &JournalEntry) -> Result<()> {
    let line = serde_json::to_string(entry).or_error(ErrorKind::Retry, "an entry cannot be written as text")?;
    file.write_all(format!("{line}\n").as_bytes())
        .or_error(ErrorKind::Retry, "the file outside cannot be written: is its disk full?")
}

fn last_fence(file: &mut File, path: &Path) -> Result<Fence> {
    let damaged = || Error::corrupt(format!("{} does not end with an entry: begin anew", path.display()));
    let length = file.seek(SeekFrom::End(0)).or_error(ErrorKind::Retry, "the length of the file is not known")?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
        .or_error(ErrorKind::Retry, "the end of the file is not reached")?;
    let mut tail = String::new();
    file.read_to_string(&mut tail).or_error(ErrorKind::Retry, "the end of the file cannot be read")?;
    match tail.trim_end_matches('\n').rsplit('\n').next() {
        None | Some("") => Ok(Fence::NONE),
        Some(_) if !tail.ends_with('\n') => Err(damaged()),
        Some(line) => {
            serde_json::from_str::<JournalEntry>(line).map(|entry| Fence::new(entry.fence)).map_err(|_| damaged())
        }
    }
}

async fn blocking<O: Send + 'static>(work: impl FnOnce() -> Result<O> + Send + 'static) -> Result<O> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(Error::fatal("writing a journal panicked").with_source(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_owner_is_refused_and_leaves_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let at = |fence| FencedFile {
            journal: path(folder.path(), 1),
            refused: folder.path().join("journal-1.refused"),
            fence: Fence::new(fence),
        };
        at(1).admit(None).unwrap();
        at(1).admit(Some(10)).unwrap();
        at(2).admit(None).unwrap();
        let stale = at(1).admit(Some(11)).unwrap_err();
        assert_eq!(Fence::remembered(&stale), Some(Fence::new(2)));
        assert!(at(2).admit(None).is_err(), "a token opens once");
        at(2).admit(Some(12)).unwrap();
        let text = std::fs::read_to_string(path(folder.path(), 1)).unwrap();
        let expected = "{\"fence\":1}\n{\"fence\":1,\"line\":10}\n{\"fence\":2}\n{\"fence\":2,\"line\":12}\n";
        assert_eq!(text, expected);
    }
}
