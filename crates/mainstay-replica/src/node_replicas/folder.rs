//! The parts of a data folder: the log, and the states of the persisted replicas.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, RESTORE, Result, SetId};
use mainstay_store::disk::{Disk, OpenMode};
use mainstay_store::log::{GroupId, LogBatch, LogOptions, SegmentLog};
use mainstay_store::state::{DiskStore, DiskStoreOptions, StateStore};

use super::options::NodeReplicasOptions;
use crate::identity::NodeIdentity;
use crate::log_storage::{LogStorage, error_kind};
use crate::replica::Identity;

/// The folder of the node log within the data folder.
pub(super) const LOG_FOLDER: &str = "log";

/// The folder of the states within the data folder.
pub(super) const STATE_FOLDER: &str = "state";

/// How many bytes a state file takes at most when it is new.
pub(super) const STATE_FILE_BYTES: u64 = (1 << 20) + (64 << 10);

/// How the names of state files end.
const STATE_SUFFIX: &str = ".redb";

/// Refuses to begin a data folder for which the disk has no room: it would be left half made.
pub(super) fn check_room(disk: &dyn Disk, folder: &Path, options: &NodeReplicasOptions) -> Result<()> {
    if NodeIdentity::is_there(disk, folder)? {
        return Ok(());
    }
    // A disk that does not say how much room it has is tried.
    let Ok(space) = disk.space(folder) else { return Ok(()) };
    let needed = options.first_start_bytes();
    if space.free_bytes >= needed {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::StorageFull,
        format!(
            "the disk of {} has {} MiB left, and a new data folder takes {} MiB (beside what log.reserve_bytes keeps back): make room, \
             or choose a folder on another disk",
            folder.display(),
            space.free_bytes >> 20,
            needed.div_ceil(1 << 20)
        ),
    ))
}

/// Opens the node log, and creates it only where there was none yet and is no state: the log is there, durably, before the
/// first state is.
pub(super) fn open_log(
    disk: Arc<dyn Disk>,
    folder: &Path,
    had_log: bool,
    options: &NodeReplicasOptions,
) -> Result<SegmentLog> {
    let (log_folder, state_folder) = (folder.join(LOG_FOLDER), folder.join(STATE_FOLDER));
    let has_state = match disk.list(&state_folder) {
        Ok(names) => names.iter().any(|name| name.ends_with(STATE_SUFFIX)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(folder_error(&state_folder, error)),
    };
    let must_exist = had_log || has_state;
    let mode = if must_exist { OpenMode::Existing } else { options.log.mode };
    SegmentLog::open(disk, &log_folder, LogOptions { mode, ..options.log.clone() }).map_err(|error| match error.kind() {
        ErrorKind::NotFound if must_exist => Error::corrupt(format!(
            "{} is the data folder of a node that has run, but its log {} is gone, and with it all that was committed since \
             the last checkpoints and whom this node has voted for; {RESTORE}",
            folder.display(),
            log_folder.display()
        )),
        _ => error,
    })
}

/// Where the state of a replica is. The group tells the replicas of a set apart that a folder has had one after another; the
/// first one of a set has the plain name if its group is the number of the set, as it was in all folders of former versions.
fn state_path(folder: &Path, set: SetId, group: GroupId) -> PathBuf {
    let name = match group {
        GroupId(number) if number == u64::from(set.number) => format!("{set}{STATE_SUFFIX}"),
        GroupId(number) => format!("{set}.{number}{STATE_SUFFIX}"),
    };
    folder.join(STATE_FOLDER).join(name)
}

/// Opens the state of a persisted replica, which has one of so many shares of the cache.
pub(super) fn open_store(
    disk: Arc<dyn Disk>,
    folder: &Path,
    identity: Identity,
    log: &LogStorage,
    options: &NodeReplicasOptions,
    cache_shares: usize,
) -> Result<Arc<dyn StateStore>> {
    let Identity { set, node, replica, .. } = identity;
    let path = state_path(folder, set, log.group());
    let name = format!("state file {}", path.display());
    let options = DiskStoreOptions {
        cache_bytes_max: options.store.cache_bytes_max / cache_shares,
        owner: Bytes::from(format!("{set} of {node}, replica {replica}")),
        // A log that was cut is worth nothing without the file: an empty one must not take its place.
        mode: if log.first() > 0 { OpenMode::Existing } else { options.store.mode },
    };
    // Builds before named no replica.
    let former = DiskStoreOptions { owner: Bytes::from(format!("{set} of {node}")), ..options.clone() };
    let opened = match DiskStore::open(disk.clone(), &path, options) {
        Err(refused) if refused.kind() == ErrorKind::Invalid => {
            DiskStore::open(disk, &path, former).map_err(|_| refused)
        }
        opened => opened,
    };
    let store = match opened {
        Err(missing) if missing.kind() == ErrorKind::NotFound => {
            log.check_joins(0, &name)?;
            return Err(missing);
        }
        opened => opened?,
    };
    // The replica looks, too, and does not know the file's name.
    log.check_joins(store.mark().index, &name)?;
    Ok(Arc::new(store))
}

/// Removes what a folder has of a persisted replica that does not run: its part of the log, and its state. Whatever of it is gone
/// already is fine.
///
/// # Errors
/// What the disk or the log fails with; then the rest is still there.
pub(super) async fn remove_replica(disk: &dyn Disk, folder: &Path, set: SetId, log: &LogStorage) -> Result<()> {
    let path = state_path(folder, set, log.group());
    let mut batch = LogBatch::new();
    batch.remove(log.group());
    log.submit_durably(batch).await.map_err(|error| {
        Error::new(error_kind(&error), format!("the log of a replica of set {set} could not be removed: try again"))
            .with_source(error)
    })?;
    DiskStore::remove(disk, &path)
}

/// What is told when something of a data folder cannot be used.
pub(crate) fn folder_error(path: &Path, error: io::Error) -> Error {
    use io::ErrorKind::{
        AlreadyExists, InvalidFilename, InvalidInput, NotADirectory, NotFound, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, WouldBlock,
    };
    let (kind, remedy) = match error.kind() {
        io::ErrorKind::StorageFull | QuotaExceeded => {
            (ErrorKind::StorageFull, "the disk is full; make room, or choose a folder on another disk")
        }
        WouldBlock => (ErrorKind::Conflict, "another process uses it; stop that, or choose another folder"),
        PermissionDenied => (
            ErrorKind::Invalid,
            "permission denied; let the user of this process read and write it, or choose another folder",
        ),
        ReadOnlyFilesystem => {
            (ErrorKind::Invalid, "the file system is read-only; mount it for writing, or choose another folder")
        }
        AlreadyExists | NotADirectory => {
            (ErrorKind::Invalid, "it, or something on the way to it, is a file and no folder; choose another folder")
        }
        NotFound | InvalidInput | InvalidFilename => {
            (ErrorKind::Invalid, "there can be no such folder; choose another one")
        }
        _ => (ErrorKind::Fatal, "check the disk"),
    };
    Error::new(kind, format!("cannot use {}: {remedy}", path.display())).with_source(error)
}
