use std::path::Path;

use bytes::{Buf as _, BufMut, BytesMut};
use mainstay_core::format::PROGRAM_VERSION;
use mainstay_core::{ClusterId, Error, NodeId, RESTORE, ReplicaId, Result, random};
use mainstay_store::disk::{Disk, OpenMode};
use rand::Rng as _;

use crate::formats::IDENTITY;
use crate::node_replicas::folder_error;

/// The file that says whose data a folder holds.
const FILE: &str = "identity";
const TEMPORARY: &str = "identity.new";
const MAGIC: &[u8; 8] = b"MAINSTAY";

/// Version 1 named no cluster, and every persisted replica had the id of its node.
const VERSION_WITHOUT_CLUSTER: u8 = 1;
/// Version 2 named no program.
const VERSION_WITHOUT_PROGRAM: u8 = 2;

/// What all versions start with: magic, version, node, sets per level; and what they end with.
const HEAD_BYTES: usize = 8 + 1 + 8 + 2;
const SUM_BYTES: usize = 4;
const CLUSTER_BYTES: usize = 16;
const REPLICA_BYTES: usize = 8;
const FLAG_BYTES: usize = 1;
const PROGRAM_BYTES_MAX: usize = 1 + u8::MAX as usize;
const BYTES_MAX: u64 =
    (HEAD_BYTES + CLUSTER_BYTES + REPLICA_BYTES * u16::MAX as usize + FLAG_BYTES + PROGRAM_BYTES_MAX + SUM_BYTES)
        as u64;

/// Whose data a folder holds, which replicas they are, and how partitions are mapped to sets in it. Written when the folder is
/// created, once more when its log is, and whenever a newer program opens it; the bytes are in
/// `docs/internals/replica.md`.
///
/// The ids of the replicas are drawn with the folder: one that was emptied is a new replica, and what was promised by the one
/// before is not asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeIdentity {
    pub cluster: ClusterId,
    pub node: NodeId,
    /// The ids of the persisted replicas, by the number of their set: as many as a level has sets.
    pub replicas: Vec<ReplicaId>,
    /// The log was created: without it, the replicas have forgotten what they promised.
    pub has_log: bool,
    /// The version of the newest program that has had the folder open, where it is known: what another cannot read, it can.
    pub program: Option<String>,
}

/// What a folder is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The cluster that it is to belong to; `None` for the one that it belongs to, or for a new one if it is empty.
    pub cluster: Option<ClusterId>,
    pub node: NodeId,
    pub sets_per_level: u16,
}

impl NodeIdentity {
    /// True if a folder holds an identity.
    pub(crate) fn is_there(disk: &dyn Disk, folder: &Path) -> Result<bool> {
        let names = disk.list(folder).map_err(|error| folder_error(folder, error))?;
        Ok(names.iter().any(|name| name == FILE))
    }

    /// Writes an identity into a new folder, or reads the folder's and checks that it is what is wanted.
    pub(crate) fn open(wanted: Wanted, disk: &dyn Disk, folder: &Path) -> Result<Self> {
        disk.create_dir_all(folder).map_err(|error| folder_error(folder, error))?;
        let path = folder.join(FILE);
        let names = disk.list(folder).map_err(|error| folder_error(folder, error))?;
        if names.iter().any(|name| name == FILE) {
            let (version, mut found) = Self::load(disk, &path)?;
            found.must_be(wanted, version, folder)?;
            let program = newer_program(found.program.as_deref());
            if version != IDENTITY.written() || found.program.as_deref() != Some(program) {
                found.program = Some(program.to_owned());
                found.create(disk, folder).map_err(|error| folder_error(&path, error))?;
            }
            // Whoever created it may have been killed before its name was durable, and what comes next is worth nothing
            // without it.
            disk.sync_dir(folder).map_err(|error| folder_error(folder, error))?;
            return Ok(found);
        }
        if let Some(stranger) = names.iter().find(|name| matches!(name.as_str(), "log" | "state")) {
            return Err(Error::corrupt(format!(
                "{} has a folder {stranger:?} but no identity file: restore that file from a copy or choose another data folder",
                folder.display()
            )));
        }
        let replicas = (0..wanted.sets_per_level).map(|_| ReplicaId(random::rng().next_u64())).collect();
        let new = Self {
            cluster: wanted.cluster.unwrap_or_else(new_cluster),
            node: wanted.node,
            replicas,
            has_log: false,
            program: Some(PROGRAM_VERSION.to_owned()),
        };
        new.create(disk, folder).map_err(|error| folder_error(&path, error))?;
        Ok(new)
    }

    /// Notes that the log is there, durably.
    pub(crate) fn log_is_there(&mut self, disk: &dyn Disk, folder: &Path) -> Result<()> {
        if std::mem::replace(&mut self.has_log, true) {
            return Ok(());
        }
        self.create(disk, folder).map_err(|error| folder_error(&folder.join(FILE), error))
    }

    fn create(&self, disk: &dyn Disk, folder: &Path) -> std::io::Result<()> {
        let temporary = folder.join(TEMPORARY);
        let file = disk.open(&temporary, OpenMode::Either)?;
        file.set_len(0)?;
        file.write_all_at(&self.encode(), 0)?;
        file.sync()?;
        disk.rename(&temporary, &folder.join(FILE))?;
        disk.sync_dir(folder)
    }

    /// The identity in a file, and the version that it was written in.
    fn load(disk: &dyn Disk, path: &Path) -> Result<(u8, Self)> {
        let file = disk.open(path, OpenMode::Existing).map_err(|error| folder_error(path, error))?;
        let len = file.len().map_err(|error| folder_error(path, error))?;
        // No longer one could be ours, and none is read into memory.
        let mut bytes = vec![0; len.min(BYTES_MAX) as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|error| folder_error(path, error))?;
        Self::decode(&bytes, len).map_err(|problem| match problem {
            Unreadable::Version(error) => error.about(path.display()),
            Unreadable::Damaged(why) => Error::corrupt(format!("{} is damaged ({why}): {RESTORE}", path.display())),
        })
    }

    fn decode(bytes: &[u8], len: u64) -> Result<(u8, Self), Unreadable> {
        if bytes.len() < HEAD_BYTES + SUM_BYTES || len > BYTES_MAX {
            return Err(Unreadable::Damaged("its length is wrong"));
        }
        let (content, sum) = bytes.split_at(bytes.len() - SUM_BYTES);
        let Some(mut rest) = content.strip_prefix(MAGIC) else { return Err(Unreadable::Damaged("it is not ours")) };
        let version = rest.get_u8();
        IDENTITY.check(version).map_err(Unreadable::Version)?;
        let node = NodeId(rest.get_u64_le());
        let sets = usize::from(rest.get_u16_le());
        let fixed =
            if version == VERSION_WITHOUT_CLUSTER { 0 } else { CLUSTER_BYTES + REPLICA_BYTES * sets + FLAG_BYTES };
        let named = match version {
            VERSION_WITHOUT_CLUSTER | VERSION_WITHOUT_PROGRAM => 0,
            _ => 1 + rest.get(fixed).map_or(0, |len| usize::from(*len)),
        };
        if rest.len() != fixed + named {
            return Err(Unreadable::Damaged("its length is wrong"));
        }
        if crc32c::crc32c(content).to_le_bytes() != sum {
            return Err(Unreadable::Damaged("its checksum is wrong"));
        }
        if version == VERSION_WITHOUT_CLUSTER {
            // A node alone: it is a cluster from now on. Its replicas are in its log under the id of the node.
            let replicas = vec![ReplicaId(node.0); sets];
            return Ok((version, Self { cluster: new_cluster(), node, replicas, has_log: false, program: None }));
        }
        let cluster = ClusterId(rest.get_u128_le());
        let replicas = (0..sets).map(|_| ReplicaId(rest.get_u64_le())).collect();
        let has_log = match rest.get_u8() {
            0 => false,
            1 => true,
            _ => return Err(Unreadable::Damaged("it has a flag that is none")),
        };
        let program = match rest.split_first() {
            None => None,
            Some((_, program)) => match std::str::from_utf8(program) {
                Ok(program) => Some(program.to_owned()),
                Err(_) => return Err(Unreadable::Damaged("the name of its program is no text")),
            },
        };
        Ok((version, Self { cluster, node, replicas, has_log, program }))
    }

    fn encode(&self) -> BytesMut {
        let mut bytes = BytesMut::new();
        bytes.put_slice(MAGIC);
        bytes.put_u8(IDENTITY.written());
        bytes.put_u64_le(self.node.0);
        // As many as a `u16` says: that is how many were drawn or read.
        bytes.put_u16_le(self.replicas.len() as u16);
        bytes.put_u128_le(self.cluster.0);
        self.replicas.iter().for_each(|replica| bytes.put_u64_le(replica.0));
        bytes.put_u8(self.has_log.into());
        // A version of a program is far shorter; it was read from a field of that length, or is this one's.
        let program = self.program.as_deref().unwrap_or_default();
        bytes.put_u8(program.len() as u8);
        bytes.put_slice(program.as_bytes());
        let sum = crc32c::crc32c(&bytes);
        bytes.put_u32_le(sum);
        bytes
    }

    fn must_be(&self, wanted: Wanted, version: u8, folder: &Path) -> Result<()> {
        let folder = folder.display();
        if self.node != wanted.node {
            return Err(Error::invalid(format!(
                "{folder} holds the data of node {}, not of {}: start that node or choose another data folder",
                self.node, wanted.node
            )));
        }
        if self.replicas.len() != usize::from(wanted.sets_per_level) {
            return Err(Error::invalid(format!(
                "{folder} was created with {} sets per level and cannot be opened with {}, because the number is fixed at creation: set \
                 sets_per_level to what it was",
                self.replicas.len(),
                wanted.sets_per_level
            )));
        }
        match wanted.cluster {
            Some(cluster) if version == VERSION_WITHOUT_CLUSTER => Err(Error::invalid(format!(
                "{folder} was written by a node alone and cannot belong to cluster {cluster}: open it without naming a cluster, or \
                 choose an empty data folder to join with"
            ))),
            Some(cluster) if cluster != self.cluster => Err(Error::invalid(format!(
                "{folder} belongs to cluster {}, not to {cluster}: join that cluster with an empty data folder",
                self.cluster
            ))),
            _ => Ok(()),
        }
    }
}

/// The newer of the program that has had a folder open and this one.
fn newer_program(recorded: Option<&str>) -> &str {
    match recorded {
        Some(recorded) if numbers(recorded) > numbers(PROGRAM_VERSION) => recorded,
        _ => PROGRAM_VERSION,
    }
}

/// The numbers of a version; what is none counts as zero.
fn numbers(version: &str) -> [u64; 3] {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

/// What keeps an identity from being read.
enum Unreadable {
    Version(Error),
    Damaged(&'static str),
}

fn new_cluster() -> ClusterId {
    let mut rng = random::rng();
    ClusterId((u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64()))
}

#[cfg(test)]
mod tests {
    use mainstay_core::ErrorKind;
    use mainstay_core::format::golden::Golden;
    use mainstay_store::disk::sim::SimDisk;

    use super::*;

    const FOLDER: &str = "/data";

    /// The file of node 7 with three sets per level, as a version wrote it.
    fn old(version: u8) -> Vec<u8> {
        Golden::of(env!("CARGO_MANIFEST_DIR")).read("identity", version)
    }

    fn wanted(cluster: Option<ClusterId>) -> Wanted {
        Wanted { cluster, node: NodeId(7), sets_per_level: 3 }
    }

    fn disk_with(bytes: &[u8]) -> SimDisk {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new(FOLDER)).unwrap();
        let file = disk.open(&Path::new(FOLDER).join(FILE), OpenMode::Either).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir(Path::new(FOLDER)).unwrap();
        disk
    }

    fn open(disk: &SimDisk, cluster: Option<ClusterId>) -> Result<NodeIdentity> {
        NodeIdentity::open(wanted(cluster), disk, Path::new(FOLDER))
    }

    #[test]
    fn an_empty_folder_gets_ids_of_its_own_and_keeps_them() {
        let (one, two) = (SimDisk::new(1), SimDisk::new(2));
        let (first, second) = (open(&one, None).unwrap(), open(&two, None).unwrap());
        assert_ne!(first.cluster, second.cluster);
        let mut ids: Vec<_> = first.replicas.iter().chain(&second.replicas).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 6, "no id is used twice");
        one.crash();
        assert_eq!(open(&one, None).unwrap(), first);
        assert_eq!(open(&one, Some(first.cluster)).unwrap(), first);

        let joined = open(&SimDisk::new(3), Some(first.cluster)).unwrap();
        assert_eq!(joined.cluster, first.cluster);
        assert_ne!(joined.replicas, first.replicas);
        let stranger = open(&two, Some(first.cluster)).unwrap_err();
        assert_eq!(stranger.kind(), ErrorKind::Invalid);
        let told = stranger.to_string();
        assert!(told.contains(&first.cluster.to_string()) && told.contains(&second.cluster.to_string()), "{told}");
    }

    #[test]
    fn a_folder_of_version_1_becomes_a_cluster_and_stays_it() {
        let disk = disk_with(&old(1));
        let refused = open(&disk, Some(ClusterId(5))).unwrap_err();
        assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("a node alone"), "{refused}");
        let found = open(&disk, None).unwrap();
        assert_eq!(found.replicas, [ReplicaId(7); 3], "the ids that its replicas have in its log");
        disk.crash();
        assert_eq!(open(&disk, None).unwrap(), found);
        assert_ne!(open(&disk_with(&old(1)), None).unwrap().cluster, found.cluster);
    }

    #[test]
    fn a_crash_at_every_operation_of_the_step_from_version_1_leaves_a_folder_that_opens() {
        for operations in 0.. {
            let disk = disk_with(&old(1));
            disk.power_off_after(operations);
            let opened = open(&disk, None);
            disk.crash();
            let found = open(&disk, None).unwrap_or_else(|error| panic!("after {operations} operations: {error}"));
            assert_eq!((found.node, found.replicas.len()), (NodeId(7), 3));
            if let Ok(before) = opened {
                assert_eq!(found, before);
                break;
            }
        }
    }

    fn sample(program: &str) -> NodeIdentity {
        NodeIdentity {
            cluster: ClusterId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            node: NodeId(7),
            replicas: vec![ReplicaId(11), ReplicaId(12), ReplicaId(u64::MAX)],
            has_log: true,
            program: Some(program.to_owned()),
        }
    }

    #[test]
    fn golden_identities_are_what_is_written() {
        let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
        golden.check("identity", &IDENTITY, &sample("0.1.0").encode());
        let (version, found) = NodeIdentity::decode(&old(3), old(3).len() as u64).ok().unwrap();
        assert_eq!((version, found), (3, sample("0.1.0")));
    }

    #[test]
    fn a_folder_of_version_2_stays_the_cluster_that_it_is() {
        let disk = disk_with(&old(2));
        let found = open(&disk, None).unwrap();
        assert_eq!(found, sample(PROGRAM_VERSION));
        disk.crash();
        let file = disk.open(&Path::new(FOLDER).join(FILE), OpenMode::Existing).unwrap();
        let mut version = [0];
        file.read_exact_at(&mut version, 8).unwrap();
        assert_eq!(version, [IDENTITY.written()], "it is written anew");
        assert_eq!(open(&disk, Some(found.cluster)).unwrap(), found);
    }

    #[test]
    fn the_newest_program_that_had_a_folder_open_is_remembered() {
        let later = disk_with(&sample("999.0.1").encode());
        assert_eq!(open(&later, None).unwrap().program.as_deref(), Some("999.0.1"));
        let earlier = disk_with(&sample("0.0.9-beta").encode());
        assert_eq!(open(&earlier, None).unwrap().program.as_deref(), Some(PROGRAM_VERSION));
        earlier.crash();
        assert_eq!(open(&earlier, None).unwrap().program.as_deref(), Some(PROGRAM_VERSION));
        for (one, two) in [("0.9.0", "0.10.0"), ("1.2.3", "2.0.0"), ("nonsense", "0.0.1")] {
            assert!(numbers(one) < numbers(two), "{one} {two}");
        }
    }

    #[test]
    fn whatever_is_damaged_is_refused() {
        let disk = SimDisk::new(1);
        let whole = open(&disk, None).unwrap().encode();
        for len in 0..whole.len() {
            assert_eq!(
                open(&disk_with(&whole[..len]), None).unwrap_err().kind(),
                ErrorKind::Corrupt,
                "cut off at {len}"
            );
        }
        for at in 0..whole.len() {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 0x40;
            let kind = open(&disk_with(&damaged), None).unwrap_err().kind();
            assert!(matches!(kind, ErrorKind::Corrupt | ErrorKind::UnknownVersion), "at {at}: {kind:?}");
        }
        let long = [&whole[..], &[0]].concat();
        assert_eq!(open(&disk_with(&long), None).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
