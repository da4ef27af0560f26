use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::outcome::Outcome;

/// What Linux calls a file system that is memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A folder for the data of a run, gone when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// A new folder below `dir`.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub(crate) fn below(dir: &Path) -> Outcome<Self> {
        let make = || {
            std::fs::create_dir_all(dir)?;
            tempfile::Builder::new().prefix("mainstay-bench-").tempdir_in(dir)
        };
        let folder = make().map_err(|error| format!("cannot write to {}: {error}; use --dir", dir.display()))?;
        Ok(Self { folder })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// True if a sync there costs nothing, because it is memory.
    pub(crate) fn is_memory(&self) -> bool {
        rustix::fs::statfs(self.path()).is_ok_and(|stat| stat.f_type as u64 == TMPFS_MAGIC)
    }

    /// Runs work in a folder of its own, which is removed afterwards. The disk has done with all of it then: nobody is measured
    /// while it tidies up after somebody else.
    ///
    /// # Errors
    /// Those of the work, and of making and removing the folder.
    pub(crate) fn within<T>(&self, name: &str, work: impl FnOnce(&Path) -> Outcome<T>) -> Outcome<T> {
        let folder: PathBuf = self.path().join(name.replace(['/', ' '], "-"));
        std::fs::create_dir_all(&folder)?;
        let result = work(&folder)?;
        std::fs::remove_dir_all(&folder)?;
        rustix::fs::sync();
        Ok(result)
    }
}

/// Where data goes unless told otherwise: beside the program, which is where it was built.
pub(crate) fn default_dir() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join("bench-data")));
    beside.unwrap_or_else(|| PathBuf::from("bench-data"))
}
