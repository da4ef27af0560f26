//! What is cut off is kept: in a file of its own beside the rows.

use std::path::{Path, PathBuf};

use mainstay::{Error, ErrorKind, Result};

use super::error::failed;
use super::file_system::{FileSystem, OpenFile};

/// How many parts of one file that begin at one place are kept.
const KEPT_MAX: u32 = 10_000;

/// How much is copied at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// Copies what a file has from a place on into a file beside it, durably. To be called before that is cut off or removed.
///
/// # Errors
/// `StorageFull` if there is no room for it, or if there are too many; what keeps files from being read and written. Then
/// nothing is to be cut off.
pub(super) fn set_aside<F: FileSystem>(system: &F, path: &Path, file: &F::File, from: u64) -> Result<PathBuf> {
    let to = file.facts().map_err(|error| failed("read", path, error))?.length;
    let kept = free_name(system, path, from)?;
    let copied = copy(system, file, from..to, &kept);
    if let Err(error) = copied {
        // Half of it is of no use. What cannot be removed either does no harm.
        let _ = system.remove(&kept);
        return Err(failed("set aside a part of a file in", &kept, error));
    }
    let folder = path.parent().unwrap_or(path);
    system.sync_folder(folder).map_err(|error| failed("sync the folder", folder, error))?;
    tracing::warn!(file = %path.display(), from, bytes = to.saturating_sub(from), kept = %kept.display(),
        "a part of a CSV file that was not acknowledged is cut off, and kept in a file of its own");
    Ok(kept)
}

fn copy<F: FileSystem>(system: &F, file: &F::File, part: std::ops::Range<u64>, kept: &Path) -> std::io::Result<()> {
    let copy = system.open(kept)?;
    let mut at = part.start;
    let mut chunk = vec![0; CHUNK_BYTES.min(part.end.saturating_sub(at)) as usize];
    while at < part.end {
        let length = CHUNK_BYTES.min(part.end - at) as usize;
        let read = file.read_at(&mut chunk[..length], at)?;
        if read == 0 {
            break;
        }
        copy.write_at(&chunk[..read], at - part.start)?;
        at += read as u64;
    }
    copy.sync()
}

/// A name that no file has: that of the file, the place, and a number.
fn free_name<F: FileSystem>(system: &F, path: &Path, from: u64) -> Result<PathBuf> {
    for number in 1..=KEPT_MAX {
        let kept = path.with_extension(format!("{from}-{number}.cut"));
        match system.facts(&kept) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(kept),
            Err(error) => return Err(failed("look at", &kept, error)),
            Ok(_) => {}
        }
    }
    let text = format!(
        "{KEPT_MAX} parts of {} were cut off at byte {from} and kept: look at the files beside it that end in .cut, and \
         remove those that nobody needs",
        path.display()
    );
    Err(Error::new(ErrorKind::StorageFull, text))
}
