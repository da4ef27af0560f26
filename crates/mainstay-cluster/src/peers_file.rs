use std::collections::BTreeMap;
use std::path::Path;

use mainstay_core::{ClusterId, Error, ErrorKind, NodeId, RESTORE, ReplicaId, Result};
use mainstay_replica::Disk;
use mainstay_store::disk::OpenMode;
use serde::{Deserialize, Serialize};

use crate::control::{decode, encode};
use crate::formats::PEERS_FILE;

const FILE: &str = "peers";
const TEMPORARY: &str = "peers.new";
const SUM_BYTES: usize = 4;

/// The longest file that is read: thousands of nodes with the longest addresses fit.
const BYTES_MAX: u64 = 4 << 20;

/// What a folder keeps of the cluster that it belongs to: how it came to it, and where other nodes are, so that a restart of all
/// nodes needs no seeds. The bytes are in `docs/internals/control.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeersFile {
    /// The request by which this folder joins. Drawn once, so that it gets one id however often it asks.
    pub(crate) join_request: u128,
    /// What the folder is; `None` while it still joins.
    pub(crate) membership: Option<FolderMembership>,
    /// Where other nodes were when the file was written.
    #[serde(default)]
    pub(crate) peers: BTreeMap<NodeId, String>,
}

/// Whose a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolderMembership {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) control_replica: ReplicaId,
    /// The cluster began with this folder: it alone may found the control set.
    pub(crate) is_founder: bool,
}

impl PeersFile {
    /// The file of a folder; `None` if there is none.
    ///
    /// # Errors
    /// `Corrupt` or `UnknownVersion` if it cannot be used, `Fatal` if it cannot be read.
    pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        let unreadable = |error| unusable(&path, error);
        let file = match disk.open(&path, OpenMode::Existing) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let len = file.len().map_err(unreadable)?;
        // No longer one could be ours, and none is read into memory.
        let mut bytes = vec![0; usize::try_from(len.min(BYTES_MAX)).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0).map_err(unreadable)?;
        Self::decode(&bytes).map(Some).map_err(|error| match error.kind() {
            ErrorKind::Corrupt => {
                Error::corrupt(format!("{} is damaged: {RESTORE}", path.display())).with_source(error)
            }
            _ => error.about(path.display()),
        })
    }

    /// Writes the file: after a crash the old or the new one is there, whole.
    ///
    /// # Errors
    /// `StorageFull` or `Fatal` if the disk does not take it.
    pub(crate) fn write(&self, disk: &dyn Disk, folder: &Path) -> Result<()> {
        let (path, temporary) = (folder.join(FILE), folder.join(TEMPORARY));
        let bytes = self.encode()?;
        let written = (|| {
            disk.create_dir_all(folder)?;
            let file = disk.open(&temporary, OpenMode::Either)?;
            file.set_len(0)?;
            file.write_all_at(&bytes, 0)?;
            file.sync()?;
            disk.rename(&temporary, &path)?;
            disk.sync_dir(folder)
        })();
        written.map_err(|error| unusable(&path, error))
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = encode(&PEERS_FILE, self)?;
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        Ok(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((content, sum)) = bytes.split_last_chunk::<SUM_BYTES>() else {
            return Err(Error::corrupt("it is too short"));
        };
        if crc32c::crc32c(content).to_le_bytes() != *sum {
            return Err(Error::corrupt("its checksum is wrong"));
        }
        decode(&PEERS_FILE, content, || "the peers file".to_owned())
    }
}

fn unusable(path: &Path, error: std::io::Error) -> Error {
    use std::io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let (kind, remedy) = match error.kind() {
        StorageFull | QuotaExceeded => (ErrorKind::StorageFull, "the disk is full; make room"),
        PermissionDenied | ReadOnlyFilesystem => {
            (ErrorKind::Invalid, "it may not be written; let the user of this process read and write it")
        }
        _ => (ErrorKind::Fatal, "check the disk"),
    };
    Error::new(kind, format!("cannot use {}: {remedy}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use mainstay_core::format::golden::{Golden, damaged};
    use mainstay_replica::SimDisk;

    use super::*;

    fn sample() -> PeersFile {
        PeersFile {
            join_request: 0x1234,
            membership: Some(FolderMembership {
                cluster: ClusterId(0xab),
                node: NodeId(3),
                control_replica: ReplicaId(7),
                is_founder: false,
            }),
            peers: BTreeMap::from([(NodeId(1), "n1.example:7400".to_owned())]),
        }
    }

    #[test]
    fn golden_bytes_of_the_file_are_kept_and_damage_is_found() {
        let bytes = sample().encode().unwrap();
        Golden::of(env!("CARGO_MANIFEST_DIR")).check("peers", &PEERS_FILE, &bytes);
        assert_eq!(PeersFile::decode(&bytes).unwrap(), sample());
        for (what, bytes) in damaged(&bytes) {
            assert_eq!(PeersFile::decode(&bytes).unwrap_err().kind(), ErrorKind::Corrupt, "{what}");
        }
    }

    #[test]
    fn a_crash_leaves_the_old_file_or_the_new_one() {
        let (disk, folder) = (SimDisk::new(1), Path::new("/data"));
        assert_eq!(PeersFile::read(&disk, folder).unwrap(), None);
        let pending = PeersFile { membership: None, peers: BTreeMap::new(), ..sample() };
        pending.write(&disk, folder).unwrap();
        sample().write(&disk, folder).unwrap();
        disk.crash();
        assert_eq!(PeersFile::read(&disk, folder).unwrap(), Some(sample()));
    }
}
