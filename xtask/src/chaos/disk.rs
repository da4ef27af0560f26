//! A small file system for each node, which can be filled.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::shell::say;
use crate::command::Outcome;

/// How large it is. The data of a run has a small part of it.
const SIZE_MB: u64 = 384;

/// What takes up the room.
const BALLAST: &str = "ballast";

/// How much is written at a time to fill it.
const CHUNK_BYTES: usize = 1 << 20;

/// A small file system, unmounted when dropped.
#[derive(Debug)]
pub(super) struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts one at a folder, which is made if it is not there.
    pub(super) fn mount(folder: &Path) -> Outcome<Self> {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("the folder {} cannot be made: {error}", folder.display()))?;
        say(&format!("mount -t tmpfs -o size={SIZE_MB}m,mode=0755 mainstay-chaos {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Leaves no room on it.
    pub(super) fn fill(&self) -> Outcome {
        let path = self.folder.join(BALLAST);
        let cannot = |error: std::io::Error| format!("{} cannot be filled: {error}", self.folder.display());
        let mut file = File::create(path).map_err(cannot)?;
        let chunk = vec![0_u8; CHUNK_BYTES];
        // Twice: others free some meanwhile. The second time in small pieces, to the last one.
        for piece in [CHUNK_BYTES, 4096] {
            let most = (SIZE_MB << 20) / piece as u64 + 1;
            for _ in 0..most {
                match file.write_all(&chunk[..piece]) {
                    Ok(()) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                    Err(error) => return Err(cannot(error)),
                }
            }
        }
        Ok(())
    }

    /// Makes room again.
    pub(super) fn free(&self) -> Outcome {
        match std::fs::remove_file(self.folder.join(BALLAST)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{} cannot be freed: {error}", self.folder.display()))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(cause) = say(&format!("umount -l {}", self.folder.display())) {
            eprintln!("{cause}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::needs;
    use crate::command::target_dir;

    #[test]
    fn a_small_disk_is_filled_freed_and_unmounted() {
        if !needs::is_root() {
            println!("NOT SHOWN: that a small disk is filled and freed: only root may mount one");
            return;
        }
        let folder = target_dir().join(format!("chaos/test-disk-{}", std::process::id()));
        let disk = SmallDisk::mount(&folder).unwrap();
        let write = || std::fs::write(folder.join("data"), vec![0; CHUNK_BYTES]);
        write().unwrap();
        std::fs::remove_file(folder.join("data")).unwrap();
        disk.fill().unwrap();
        assert_eq!(write().unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        disk.free().unwrap();
        disk.free().unwrap();
        write().unwrap();
        drop(disk);
        assert!(!folder.join("data").exists(), "what was mounted there is gone");
        std::fs::remove_dir(&folder).unwrap();
    }
}
