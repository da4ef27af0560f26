//! The state store on disk: [redb](https://docs.rs/redb) under an overlay of what was applied since the last checkpoint.

mod options;

mod overlay;
mod pool;
mod snapshot;

mod difference;
mod merge;

mod base;
mod block_file;
mod failure;
mod instance;
mod reading;

mod checkpoint;
mod import;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::{Mutex, RwLock};

pub use options::DiskStoreOptions;

use super::prepared::Prepared;
use super::{Counts, Import, Mark, StateSnapshot, StateStore, Write};
use crate::disk::{Disk, LockHolder, OpenMode};
use base::Base;
use failure::{io_failure, redb_failure};
use import::DiskImport;
use instance::{Checkpoint, Instance, StoreFile};
use overlay::{Intake, Known, Overlay};
use pool::Pool;
use snapshot::{DiskSnapshot, Layers};

/// A state store in a file.
///
/// [`apply`](StateStore::apply) changes an overlay in memory and nothing else; it reads the file only for a counter that
/// was not touched since the last checkpoint. A checkpoint freezes the overlay, writes
/// it with its mark in one synced transaction while a new overlay takes what comes in, and puts the file's new state
/// below it. The state may be far larger than memory: only the overlay and a cache of the file's pages are held.
///
/// The store never refuses to apply. Whoever feeds it looks at [`unsaved_bytes`](StateStore::unsaved_bytes), calls
/// [`checkpoint`](StateStore::checkpoint) in time and commits nothing more above a limit of its own: that is what bounds
/// the overlay.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use mainstay_store::disk::sim::SimDisk;
/// use mainstay_store::state::{DiskStore, DiskStoreOptions, Mark, StateStore as _, WriteBatch};
///
/// let disk = SimDisk::new(1);
/// let open = || DiskStore::open(Arc::new(disk.clone()), Path::new("/set-0.state"), DiskStoreOptions::default());
///
/// let store = open()?;
/// let mut batch = WriteBatch::new();
/// batch.put(b"name", b"alice");
/// store.apply(Mark { index: 1, ..Mark::default() }, &mut batch.iter())?;
/// store.checkpoint()?;
/// drop(store);
/// disk.crash();
/// assert_eq!(open()?.get(b"name")?.as_deref(), Some(&b"alice"[..]));
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct DiskStore {
    shared: Arc<DiskStoreCore>,
}

#[derive(Debug)]
struct DiskStoreCore {
    place: Arc<StoreFile>,
    /// Held for moments only: never while the disk works.
    layers: RwLock<Layers>,
    /// Held by who applies or ends an import, so that counters do not change between being read and being written. New values
    /// are kept in it. Taken before the writer's lock by who needs both.
    applying: Mutex<Pool>,
    /// What is certain to survive a crash.
    checkpointed: RwLock<Mark>,
    /// An import renamed its file, but the folder could not be synced yet.
    unsynced_name: Mutex<bool>,
}

impl DiskStore {
    /// Opens the store in a file, or creates it, as `options.mode` says.
    ///
    /// # Errors
    /// `Conflict` while another process has it open, `NotFound` if it is missing and must not be, `Invalid` if it belongs
    /// to another owner or may not be accessed, `Corrupt` if it is damaged, `UnknownVersion` if another version wrote it.
    pub fn open(disk: Arc<dyn Disk>, path: &Path, options: DiskStoreOptions) -> Result<Self> {
        let failed = |error| io_failure(path, "open", error);
        let folder = folder_of(path);
        if options.mode != OpenMode::Existing {
            disk.create_dir_all(folder).map_err(failed)?;
        }
        let lock = disk.lock(&beside(path, "lock")).map_err(|error| match LockHolder::of(&error) {
            Some(holder) => Error::new(
                ErrorKind::Conflict,
                format!(
                    "state store {} is held by {holder}: stop that, or drop its stores, snapshots and scans",
                    path.display()
                ),
            ),
            None => failed(error),
        })?;
        remove_leftovers(&*disk, path)?;
        let is_there = disk.list(folder).map_err(failed)?.contains(&name_of(path));
        if is_there && options.mode == OpenMode::New {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("state store {} exists already: open it as it is, or use another path", path.display()),
            ));
        }
        let place = Arc::new(StoreFile {
            disk,
            path: path.to_path_buf(),
            options,
            writer: Mutex::new(()),
            generation: AtomicU64::new(0),
            _lock: lock,
        });
        if is_there {
            // Whoever gave the file its name may have been killed before the folder was synced. From here on the log is cut
            // by what the file holds, so its name must be as durable.
            place.disk.sync_dir(folder).map_err(failed)?;
        } else if place.options.mode != OpenMode::Existing {
            create(&place)?;
        }
        let base = Base::of(&place, Instance::open(&place)?).map_err(|error| redb_failure(path, "open", error))?;
        let Checkpoint { generation, mark, .. } = base.checkpoint().clone();
        place.generation.store(generation, Ordering::Release);
        let layers = Layers { active: Overlay::at(mark.clone()), frozen: None, base: Arc::new(base) };
        Ok(Self {
            shared: Arc::new(DiskStoreCore {
                place,
                layers: RwLock::new(layers),
                applying: Mutex::default(),
                checkpointed: RwLock::new(mark),
                unsynced_name: Mutex::new(false),
            }),
        })
    }

    /// The options that the store was opened with.
    pub fn options(&self) -> &DiskStoreOptions {
        &self.shared.place.options
    }
}

impl StateStore for DiskStore {
    fn apply(&self, mark: Mark, writes: &mut dyn Iterator<Item = Write<'_>>) -> Result<()> {
        let mut prepared = Prepared::new();
        prepared.fill(writes);
        prepared.check_lengths()?;
        let mut pool = self.shared.applying.lock();
        prepared.count(|key| self.shared.get(key))?;
        let mut layers = self.shared.layers.write();
        mark.check_follows(&layers.active.mark)?;
        layers.active.cost_bytes += prepared.cost_bytes();
        prepared.apply_to(&mut Intake { overlay: &mut layers.active, pool: &mut pool });
        layers.active.mark = mark;
        Ok(())
    }

    fn mark(&self) -> Mark {
        self.shared.layers.read().active.mark.clone()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.shared.get(key)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        self.shared.snapshot().multi_get(keys)
    }

    fn snapshot(&self) -> Result<Arc<dyn StateSnapshot>> {
        Ok(Arc::new(self.shared.snapshot()))
    }

    fn checkpoint(&self) -> Result<Mark> {
        self.shared.checkpoint()
    }

    fn checkpointed(&self) -> Mark {
        self.shared.checkpointed.read().clone()
    }

    fn checkpointed_counts(&self) -> Counts {
        self.shared.layers.read().base.counts()
    }

    fn unsaved_bytes(&self) -> u64 {
        let layers = self.shared.layers.read();
        layers.active.cost_bytes + layers.frozen.as_ref().map_or(0, |frozen| frozen.cost_bytes)
    }

    fn import(&self) -> Result<Box<dyn Import>> {
        Ok(Box::new(DiskImport::new(self.shared.clone())?))
    }
}

impl DiskStoreCore {
    /// Reads once more after a failure of the moment, from what the state is then: a counter that cannot be read stops a
    /// replica.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match self.find(key) {
            Err(error) if error.kind() == ErrorKind::Retry => {
                self.mend();
                self.find(key)
            }
            found => found,
        }
    }

    fn find(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let layers = self.layers.read();
        match layers.lookup(key) {
            Known::Value(value) => return Ok(Some(value.to_bytes())),
            Known::Absent => return Ok(None),
            Known::Unknown => {}
        }
        let base = layers.base.clone();
        drop(layers);
        base.get(key)
    }

    fn snapshot(&self) -> DiskSnapshot {
        DiskSnapshot { layers: self.layers.read().clone(), counts: OnceLock::new() }
    }
}

/// Creates the file under another name first: a file of the store's name is always whole.
fn create(place: &Arc<StoreFile>) -> Result<()> {
    let path = beside(&place.path, "import-new");
    drop(Instance::create(place, &path, &Checkpoint::default())?);
    let failed = |error| io_failure(&place.path, "create", error);
    place.disk.rename(&path, &place.path).map_err(failed)?;
    place.disk.sync_dir(folder_of(&place.path)).map_err(failed)
}

/// Removes what a crash left of an import or of a creation.
fn remove_leftovers(disk: &dyn Disk, path: &Path) -> Result<()> {
    let folder = folder_of(path);
    let failed = |error| io_failure(path, "open", error);
    let start = format!("{}.import-", name_of(path));
    for name in disk.list(folder).map_err(failed)?.iter().filter(|name| name.starts_with(&start)) {
        disk.remove(&folder.join(name)).map_err(failed)?;
    }
    Ok(())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A file that belongs to the store's, by its name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    path.with_file_name(format!("{}.{suffix}", name_of(path)))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
