use std::io;
use std::path::{Path, PathBuf};

use mainstay_core::time::{self, Duration};
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_store::disk::{Disk, DiskLock, LockHolder};
use mainstay_store::log::LOCK_FILE;

use crate::node_replicas::folder_error;

/// How long a node of this process that has been stopped or dropped may take to let go of its folder.
const OWN_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long another process may take, such as one that was told to end when its successor was started.
const OTHER_WAIT_MAX: Duration = Duration::from_secs(1);

/// How often is looked.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The lock file of a data folder.
const FOLDER_LOCK_FILE: &str = "lock";

/// How the names of lock files beside stores end.
const LOCK_SUFFIX: &str = ".lock";

/// The right to make something of a data folder, before it is [opened](crate::NodeReplicas::open_locked).
pub struct FolderLock {
    _lock: Box<dyn DiskLock>,
}

impl std::fmt::Debug for FolderLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FolderLock")
    }
}

/// Takes the lock of a data folder, creating the folder if need be, and waits briefly for an earlier holder to let go.
///
/// The lock is held from before the identity is read until the log is open, whose own lock holds from then on. Without it two nodes
/// that start at the same moment in an empty folder would both write an identity, and the one that gets the log would
/// run under ids that the folder does not have.
///
/// # Errors
/// `Conflict` with the holder if the folder is still in use; nothing was changed then.
pub(crate) async fn lock_folder(disk: &dyn Disk, folder: &Path) -> Result<FolderLock> {
    disk.create_dir_all(folder).map_err(|error| folder_error(folder, error))?;
    let begun = time::now();
    loop {
        let holder = match disk.lock(&folder.join(FOLDER_LOCK_FILE)) {
            Ok(lock) => match log_or_state_holder(disk, folder) {
                None => return Ok(FolderLock { _lock: lock }),
                Some(holder) => holder,
            },
            Err(error) => match LockHolder::of(&error) {
                Some(holder) => holder,
                None => return Err(folder_error(folder, error)),
            },
        };
        let patience = match holder {
            LockHolder::ThisProcess => OWN_WAIT_MAX,
            LockHolder::Process(_) => OTHER_WAIT_MAX,
        };
        if begun.elapsed() >= patience {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "data folder {} is in use by {holder}: stop it first, or give each node a folder of its own",
                    folder.display()
                ),
            ));
        }
        time::sleep(LOOK_INTERVAL).await;
    }
}

/// The holder of the log or of a state: a node that runs, or one that was stopped and has not let go yet.
fn log_or_state_holder(disk: &dyn Disk, folder: &Path) -> Option<LockHolder> {
    locks(disk, folder.join("log"), |name| name == LOCK_FILE)
        .chain(locks(disk, folder.join("state"), |name| name.ends_with(LOCK_SUFFIX)))
        .find_map(|lock| LockHolder::of(&disk.lock(&lock).err()?))
}

/// The lock files in a folder; none if it cannot be read, which opening it finds out.
fn locks(disk: &dyn Disk, folder: PathBuf, is_lock: fn(&str) -> bool) -> impl Iterator<Item = PathBuf> + use<> {
    let names: io::Result<Vec<String>> = disk.list(&folder);
    names.into_iter().flatten().filter(move |name| is_lock(name)).map(move |name| folder.join(name))
}
