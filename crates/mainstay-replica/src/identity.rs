use std::path::Path;

use bytes::{BufMut, BytesMut};
use mainstay_core::{Error, ErrorKind, NodeId, Result};
use mainstay_store::disk::{Disk, OpenMode};

use crate::host::folder_error;

/// The file that says whose data a folder holds.
const FILE: &str = "identity";
const TEMPORARY: &str = "identity.new";
const MAGIC: &[u8; 8] = b"MAINSTAY";
const VERSION: u8 = 1;
const BYTES: usize = 8 + 1 + 8 + 2 + 4;

/// Whose data a folder holds, and how partitions are mapped to sets in it. Written once; the bytes are in
/// `docs/internals/replica.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostIdentity {
    pub node: NodeId,
    pub sets_per_level: u16,
}

impl HostIdentity {
    /// Writes the identity into a new folder, or checks that the folder's is the same.
    pub(crate) fn check_or_create(self, disk: &dyn Disk, folder: &Path) -> Result<()> {
        disk.create_dir_all(folder).map_err(|error| folder_error(folder, error))?;
        let path = folder.join(FILE);
        let names = disk.list(folder).map_err(|error| folder_error(folder, error))?;
        if names.iter().any(|name| name == FILE) {
            Self::load(disk, &path)?.must_equal(self, folder)?;
            // Whoever created it may have been killed before its name was durable, and what comes next is worth nothing
            // without it.
            return disk.sync_dir(folder).map_err(|error| folder_error(folder, error));
        }
        if let Some(stranger) = names.iter().find(|name| matches!(name.as_str(), "log" | "state")) {
            return Err(Error::corrupt(format!(
                "{} has a folder {stranger:?} but no identity file: restore it or choose another data folder",
                folder.display()
            )));
        }
        self.create(disk, folder).map_err(|error| folder_error(&path, error))
    }

    fn create(self, disk: &dyn Disk, folder: &Path) -> std::io::Result<()> {
        let temporary = folder.join(TEMPORARY);
        let file = disk.open(&temporary, OpenMode::Either)?;
        file.set_len(0)?;
        file.write_all_at(&self.encode(), 0)?;
        file.sync()?;
        disk.rename(&temporary, &folder.join(FILE))?;
        disk.sync_dir(folder)
    }

    fn load(disk: &dyn Disk, path: &Path) -> Result<Self> {
        let mut bytes = [0; BYTES];
        let damaged = |why: &str| Error::corrupt(format!("{} is damaged ({why}): restore it", path.display()));
        let file = disk.open(path, OpenMode::Existing).map_err(|error| folder_error(path, error))?;
        if file.len().map_err(|error| folder_error(path, error))? != BYTES as u64 {
            return Err(damaged("its length is wrong"));
        }
        file.read_exact_at(&mut bytes, 0).map_err(|error| folder_error(path, error))?;
        if &bytes[..8] != MAGIC {
            return Err(damaged("it is not ours"));
        }
        if bytes[8] != VERSION {
            return Err(Error::new(
                ErrorKind::UnknownVersion,
                format!("{} has format version {}, this build reads {VERSION}", path.display(), bytes[8]),
            ));
        }
        let (content, sum) = bytes.split_at(BYTES - 4);
        if crc32c::crc32c(content).to_le_bytes() != sum {
            return Err(damaged("its checksum is wrong"));
        }
        let mut node = [0; 8];
        node.copy_from_slice(&content[9..17]);
        Ok(Self {
            node: NodeId(u64::from_le_bytes(node)),
            sets_per_level: u16::from_le_bytes([content[17], content[18]]),
        })
    }

    fn encode(self) -> BytesMut {
        let mut bytes = BytesMut::with_capacity(BYTES);
        bytes.put_slice(MAGIC);
        bytes.put_u8(VERSION);
        bytes.put_u64_le(self.node.0);
        bytes.put_u16_le(self.sets_per_level);
        let sum = crc32c::crc32c(&bytes);
        bytes.put_u32_le(sum);
        bytes
    }

    fn must_equal(self, wanted: Self, folder: &Path) -> Result<()> {
        if self.node != wanted.node {
            return Err(Error::invalid(format!(
                "{} holds the data of node {}, not of {}: start that node or choose another data folder",
                folder.display(),
                self.node,
                wanted.node
            )));
        }
        if self.sets_per_level != wanted.sets_per_level {
            return Err(Error::invalid(format!(
                "{} was created with {} sets per level and cannot be opened with {}: the number is fixed at creation",
                folder.display(),
                self.sets_per_level,
                wanted.sets_per_level
            )));
        }
        Ok(())
    }
}
