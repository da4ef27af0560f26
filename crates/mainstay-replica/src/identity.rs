mod codec;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use mainstay_core::format::PROGRAM_VERSION;
use mainstay_core::{ClusterId, Error, ErrorKind, NodeId, RESTORE, ReplicaId, Result, SetId, random};
use mainstay_store::disk::{Disk, OpenMode};
use mainstay_store::log::GroupId;
use rand::Rng as _;

use self::codec::{BYTES_MAX, Read, Unreadable};
use crate::node_replicas::folder_error;

/// The file that says whose data a folder holds.
const FILE: &str = "identity";

/// What is written next and then takes the place of that file. It is there at all times, so that a full disk does not keep a node
/// from starting: its bytes are overwritten in place.
const NEXT_FILE: &str = "identity.new";

/// How long the next file is at least: room for a few more replicas.
const NEXT_FILE_BYTES: usize = 4096;

/// How many ids of dropped replicas a folder remembers. The oldest are forgotten first: that no id is given twice is what the
/// control set sees to, and this finds mistakes of the recent past.
pub(crate) const TOMBSTONES_MAX: usize = 4096;

/// Whose data a folder holds, and which replicas are in it. Written when the folder is created, whenever it is opened, and whenever
/// a replica comes or goes; the bytes are in `docs/internals/replica.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeIdentity {
    pub cluster: ClusterId,
    pub node: NodeId,
    /// How often the folder was opened, this time included: of two processes that run on copies of one folder, or of a folder
    /// and an older copy of it, one has a number that was seen before.
    pub boot: u64,
    /// What the log names as its owner, beside the node: drawn with the folder. In folders of former versions it is the id of
    /// the first replica.
    pub log_token: ReplicaId,
    /// The log was created: without it, the replicas have forgotten what they promised.
    pub has_log: bool,
    /// The group of the node log that the next replica gets. No group is used twice.
    pub next_group: u64,
    /// The version of the newest program that has had the folder open, where it is known: what another cannot read, it can.
    pub program: Option<String>,
    /// The persisted replicas.
    pub replicas: BTreeMap<(SetId, ReplicaId), ReplicaRecord>,
    /// The ids that were used here and must not come back, the oldest first: of persisted replicas that were dropped, and of
    /// volatile ones from when they were created.
    pub tombstones: VecDeque<(SetId, ReplicaId)>,
}

/// What a folder says of a persisted replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaRecord {
    /// Its part of the node log, which is its own for ever.
    pub group: GroupId,
    pub data_loss: u32,
    pub phase: Phase,
}

/// How far a replica has come, or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its parts are being made. It has not run yet, and so has promised nothing.
    Creating,
    Live,
    /// Its parts are being removed. It does not run any more.
    Dropping,
}

/// Who a folder says that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderIdentity {
    /// The cluster; `None` for a folder from before there were clusters, which gets one when it is opened.
    pub cluster: Option<ClusterId>,
    /// The node.
    pub node: NodeId,
    /// How often the folder was opened since this is counted.
    pub boot: u64,
    /// The version of the newest program that has had it open, where it is known.
    pub program: Option<String>,
}

/// What a folder is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The cluster that it is to belong to; `None` for the one that it belongs to, or for a new one if it is empty.
    pub cluster: Option<ClusterId>,
    /// The node that it is to be of; `None` for the one that it is of. An empty folder is refused then.
    pub node: Option<NodeId>,
}

impl NodeIdentity {
    /// True if a folder holds an identity.
    pub(crate) fn is_there(disk: &dyn Disk, folder: &Path) -> Result<bool> {
        let names = disk.list(folder).map_err(|error| folder_error(folder, error))?;
        Ok(names.iter().any(|name| name == FILE))
    }

    /// What a folder says of itself; `None` if it is empty or not there. Nothing is changed, and nothing is locked.
    pub(crate) fn peek(disk: &dyn Disk, folder: &Path) -> Result<Option<FolderIdentity>> {
        let names = match disk.list(folder) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(folder_error(folder, error)),
        };
        if !names.iter().any(|name| name == FILE) {
            refuse_strangers(&names, folder)?;
            return Ok(None);
        }
        let Read { version, identity } = Self::load(disk, &folder.join(FILE))?;
        let cluster = (version != codec::VERSION_WITHOUT_CLUSTER).then_some(identity.cluster);
        Ok(Some(FolderIdentity { cluster, node: identity.node, boot: identity.boot, program: identity.program }))
    }

    /// Writes an identity into a new folder, or reads the folder's, checks that it is what is wanted, and counts that it is opened.
    /// The caller holds the lock of the folder.
    pub(crate) fn open(wanted: Wanted, disk: &dyn Disk, folder: &Path) -> Result<Self> {
        disk.create_dir_all(folder).map_err(|error| folder_error(folder, error))?;
        let path = folder.join(FILE);
        let names = disk.list(folder).map_err(|error| folder_error(folder, error))?;
        let identity = if names.iter().any(|name| name == FILE) {
            let Read { version, identity: mut found } = Self::load(disk, &path)?;
            found.must_be(wanted, version, folder)?;
            found.program = Some(newer_program(found.program.as_deref()).to_owned());
            found.boot = found.boot.saturating_add(1);
            found
        } else {
            refuse_strangers(&names, folder)?;
            Self::new(wanted, folder)?
        };
        identity.write(disk, folder)?;
        Ok(identity)
    }

    fn new(wanted: Wanted, folder: &Path) -> Result<Self> {
        let Some(node) = wanted.node else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("{} is no data folder of a node yet: say which node it is to be of", folder.display()),
            ));
        };
        Ok(Self {
            cluster: wanted.cluster.unwrap_or_else(new_cluster),
            node,
            boot: 1,
            log_token: ReplicaId(random::rng().next_u64()),
            has_log: false,
            next_group: 0,
            program: Some(PROGRAM_VERSION.to_owned()),
            replicas: BTreeMap::new(),
            tombstones: VecDeque::new(),
        })
    }

    /// Changes the identity, durably: if that fails, it is as it was. What the disk has then is one of the two.
    pub(crate) fn change(&mut self, disk: &dyn Disk, folder: &Path, change: impl FnOnce(&mut Self)) -> Result<()> {
        let mut next = self.clone();
        change(&mut next);
        if next != *self {
            next.write(disk, folder)?;
            *self = next;
        }
        Ok(())
    }

    /// Takes note of a new replica, with a group of its own.
    pub(crate) fn add(&mut self, set: SetId, replica: ReplicaId, data_loss: u32) {
        let group = GroupId(self.next_group);
        self.next_group += 1;
        self.replicas.insert((set, replica), ReplicaRecord { group, data_loss, phase: Phase::Creating });
    }

    /// Takes note of how far a replica has come, if it is there.
    pub(crate) fn set_phase(&mut self, set: SetId, replica: ReplicaId, phase: Phase) {
        if let Some(record) = self.replicas.get_mut(&(set, replica)) {
            record.phase = phase;
        }
    }

    /// Sees to it that an id is not used again.
    pub(crate) fn bury(&mut self, set: SetId, replica: ReplicaId) {
        self.replicas.remove(&(set, replica));
        if !self.is_buried(set, replica) {
            self.tombstones.push_back((set, replica));
        }
        while self.tombstones.len() > TOMBSTONES_MAX {
            self.tombstones.pop_front();
        }
    }

    /// True if an id was used here and must not come back.
    pub(crate) fn is_buried(&self, set: SetId, replica: ReplicaId) -> bool {
        self.tombstones.contains(&(set, replica))
    }

    /// The replicas of a set that the folder has something of.
    pub(crate) fn of_set(&self, set: SetId) -> impl Iterator<Item = (ReplicaId, ReplicaRecord)> + '_ {
        let here = self.replicas.range((set, ReplicaId(0))..=(set, ReplicaId(u64::MAX)));
        here.map(|((_, replica), record)| (*replica, *record))
    }

    fn write(&self, disk: &dyn Disk, folder: &Path) -> Result<()> {
        self.replace(disk, folder).map_err(|error| folder_error(&folder.join(FILE), error))
    }

    fn replace(&self, disk: &dyn Disk, folder: &Path) -> std::io::Result<()> {
        let (bytes, next) = (self.encode(), folder.join(NEXT_FILE));
        let file = disk.open(&next, OpenMode::Either)?;
        file.write_all_at(&bytes, 0)?;
        file.set_len(bytes.len() as u64)?;
        file.sync()?;
        disk.rename(&next, &folder.join(FILE))?;
        disk.sync_dir(folder)?;
        // What this takes has just been given back. Should there be none all the same, the next write needs some.
        if let Err(error) = reserve_next(disk, &next, bytes.len()) {
            tracing::debug!(%error, file = %next.display(), "no room could be reserved");
        }
        Ok(())
    }

    fn load(disk: &dyn Disk, path: &Path) -> Result<Read> {
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

    fn must_be(&self, wanted: Wanted, version: u8, folder: &Path) -> Result<()> {
        let folder = folder.display();
        if let Some(node) = wanted.node.filter(|node| *node != self.node) {
            return Err(Error::invalid(format!(
                "{folder} holds the data of node {}, not of {node}: start that node or choose another data folder",
                self.node
            )));
        }
        match wanted.cluster {
            Some(cluster) if version == codec::VERSION_WITHOUT_CLUSTER => Err(Error::invalid(format!(
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

/// Takes the room on the disk that the next write needs.
fn reserve_next(disk: &dyn Disk, path: &Path, len: usize) -> std::io::Result<()> {
    disk.open(path, OpenMode::Either)?.write_all_at(&vec![0; len.max(NEXT_FILE_BYTES)], 0)
}

/// Refuses a folder that has data and nothing that says whose.
fn refuse_strangers(names: &[String], folder: &Path) -> Result<()> {
    match names.iter().find(|name| matches!(name.as_str(), "log" | "state")) {
        None => Ok(()),
        Some(stranger) => Err(Error::corrupt(format!(
            "{} has a folder {stranger:?} but no identity file: restore that file from a copy or choose another data folder",
            folder.display()
        ))),
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

fn new_cluster() -> ClusterId {
    let mut rng = random::rng();
    ClusterId((u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64()))
}
