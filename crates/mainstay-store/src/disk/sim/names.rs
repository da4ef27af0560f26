use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rand::RngExt as _;
use rand::rngs::StdRng;

/// Which path leads to which file: as it is seen now, and as it is certain to be after a crash.
#[derive(Debug, Default)]
pub(super) struct Names {
    current: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
    pending: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Create { path: PathBuf, file: u64 },
    Remove { path: PathBuf, file: u64 },
    Rename { from: PathBuf, to: PathBuf, file: u64 },
}

impl Names {
    pub(super) fn get(&self, path: &Path) -> Option<u64> {
        self.current.get(path).copied()
    }

    /// The names directly in a folder, sorted.
    pub(super) fn in_dir<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.current.keys().map(PathBuf::as_path).filter(move |path| path.parent() == Some(dir))
    }

    pub(super) fn create(&mut self, path: &Path, file: u64) {
        self.current.insert(path.to_path_buf(), file);
        self.pending.push(Change::Create { path: path.to_path_buf(), file });
    }

    pub(super) fn remove(&mut self, path: &Path) -> Option<u64> {
        let file = self.current.remove(path)?;
        self.pending.push(Change::Remove { path: path.to_path_buf(), file });
        Some(file)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Option<u64> {
        let file = self.current.remove(from)?;
        self.current.insert(to.to_path_buf(), file);
        self.pending.push(Change::Rename { from: from.to_path_buf(), to: to.to_path_buf(), file });
        Some(file)
    }

    pub(super) fn sync(&mut self, dir: &Path) {
        let pending = std::mem::take(&mut self.pending);
        let (synced, rest): (Vec<_>, Vec<_>) = pending.into_iter().partition(|change| change.dir() == Some(dir));
        self.pending = rest;
        for change in synced {
            apply(&mut self.durable, change);
        }
    }

    pub(super) fn crash(&mut self, rng: &mut StdRng) {
        for change in std::mem::take(&mut self.pending) {
            if rng.random() {
                apply(&mut self.durable, change);
            }
        }
        self.current.clone_from(&self.durable);
    }

    /// Forgets everything below a folder, now and after a crash.
    pub(super) fn lose(&mut self, dir: &Path) {
        self.current.retain(|path, _| !path.starts_with(dir));
        self.durable.retain(|path, _| !path.starts_with(dir));
        self.pending.retain(|change| !change.dir().is_some_and(|parent| parent.starts_with(dir)));
    }

    /// The files that something still leads to, or may lead to after a crash.
    pub(super) fn reachable(&self) -> BTreeSet<u64> {
        let pending = self.pending.iter().map(|change| match change {
            Change::Create { file, .. } | Change::Remove { file, .. } | Change::Rename { file, .. } => *file,
        });
        self.current.values().chain(self.durable.values()).copied().chain(pending).collect()
    }
}

impl Change {
    fn dir(&self) -> Option<&Path> {
        match self {
            Change::Create { path, .. } | Change::Remove { path, .. } => path.parent(),
            Change::Rename { to, .. } => to.parent(),
        }
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: Change) {
    // A change may survive where one before it did not: it then does what it can.
    match change {
        Change::Create { path, file } => drop(names.insert(path, file)),
        Change::Remove { path, file } => {
            if names.get(&path) == Some(&file) {
                names.remove(&path);
            }
        }
        Change::Rename { from, to, file } => {
            if names.get(&from) == Some(&file) {
                names.remove(&from);
            }
            names.insert(to, file);
        }
    }
}
