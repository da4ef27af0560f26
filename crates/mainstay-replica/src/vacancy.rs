use std::io;
use std::path::{Path, PathBuf};

use mainstay_core::time::{self, Duration};
use mainstay_store::disk::{Disk, LockHolder};
use mainstay_store::log::LOCK_FILE;

/// How long a node of this process that has been stopped or dropped may take to let go of its folder.
const OWN_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long another process may take, such as one that was told to end when its successor was started.
const OTHER_WAIT_MAX: Duration = Duration::from_secs(1);

/// How often is looked.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// How the names of lock files beside stores end.
const LOCK_SUFFIX: &str = ".lock";

/// Waits briefly until nobody holds the log and the states of a data folder any more. Whether that was long enough is found
/// out by who opens them.
pub(crate) async fn await_vacancy(disk: &dyn Disk, log_folder: &Path, state_folder: &Path) {
    let begun = time::now();
    while let Some(holder) = holder(disk, log_folder, state_folder) {
        let patience = match holder {
            LockHolder::ThisProcess => OWN_WAIT_MAX,
            LockHolder::Process(_) => OTHER_WAIT_MAX,
        };
        if begun.elapsed() >= patience {
            return;
        }
        time::sleep(LOOK_INTERVAL).await;
    }
}

/// Who holds one of the locks of a data folder.
fn holder(disk: &dyn Disk, log_folder: &Path, state_folder: &Path) -> Option<LockHolder> {
    locks(disk, log_folder, |name| name == LOCK_FILE)
        .chain(locks(disk, state_folder, |name| name.ends_with(LOCK_SUFFIX)))
        .find_map(|lock| LockHolder::of(&disk.lock(&lock).err()?))
}

/// The lock files in a folder; none if it cannot be read, which who opens it finds out.
fn locks(disk: &dyn Disk, folder: &Path, is_lock: fn(&str) -> bool) -> impl Iterator<Item = PathBuf> + use<> {
    let names: io::Result<Vec<String>> = disk.list(folder);
    let folder = folder.to_path_buf();
    names.into_iter().flatten().filter(move |name| is_lock(name)).map(move |name| folder.join(name))
}
