use mainstay_core::format::golden::Golden;
use mainstay_core::{Epoch, Level};
use mainstay_store::disk::sim::SimDisk;

use super::*;
use crate::formats::IDENTITY;

const FOLDER: &str = "/data";

/// The file of node 7, as a version wrote it: up to version 3 with three sets per level.
fn old(version: u8) -> Vec<u8> {
    Golden::of(env!("CARGO_MANIFEST_DIR")).read("identity", version)
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
    NodeIdentity::open(Wanted { cluster, node: Some(NodeId(7)) }, disk, Path::new(FOLDER))
}

fn peek(disk: &SimDisk) -> Option<FolderIdentity> {
    NodeIdentity::peek(disk, Path::new(FOLDER)).unwrap()
}

fn change(identity: &mut NodeIdentity, disk: &SimDisk, change: impl FnOnce(&mut NodeIdentity)) -> Result<()> {
    identity.change(disk, Path::new(FOLDER), change)
}

fn persisted(number: u16) -> SetId {
    SetId { level: Level::Persisted, number }
}

fn volatile(number: u16) -> SetId {
    SetId { level: Level::Volatile, number }
}

/// The same, opened once more.
fn later(identity: &NodeIdentity) -> NodeIdentity {
    NodeIdentity { boot: identity.boot + 1, ..identity.clone() }
}

fn live(set: u16, id: u64) -> ((SetId, ReplicaId), ReplicaRecord) {
    let record = ReplicaRecord { group: GroupId(set.into()), data_loss: 0, phase: Phase::Live };
    ((persisted(set), ReplicaId(id)), record)
}

/// What version 3 could say: three sets, each with a replica.
fn fixed_sets(program: &str) -> NodeIdentity {
    NodeIdentity {
        cluster: ClusterId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        node: NodeId(7),
        boot: 0,
        log_token: ReplicaId(11),
        has_log: true,
        next_group: 3,
        program: Some(program.to_owned()),
        replicas: [live(0, 11), live(1, 12), live(2, u64::MAX)].into(),
        tombstones: VecDeque::new(),
    }
}

/// The same with what came since: counted starts, replicas in all phases, and tombstones.
fn sample(program: &str) -> NodeIdentity {
    let mut sample = NodeIdentity { boot: 0x0123_4567, ..fixed_sets(program) };
    sample.add(persisted(u16::MAX), ReplicaId(20), 0);
    sample.add(persisted(5), ReplicaId(21), Epoch::DATA_LOSS_MAX);
    sample.set_phase(persisted(5), ReplicaId(21), Phase::Live);
    sample.set_phase(persisted(2), ReplicaId(u64::MAX), Phase::Dropping);
    sample.bury(persisted(1), ReplicaId(12));
    sample.bury(volatile(1), ReplicaId(13));
    sample
}

#[test]
fn an_empty_folder_gets_ids_of_its_own_and_keeps_them() {
    let (one, two) = (SimDisk::new(1), SimDisk::new(2));
    assert_eq!(peek(&one), None);
    let (first, second) = (open(&one, None).unwrap(), open(&two, None).unwrap());
    assert_ne!(first.cluster, second.cluster);
    assert_ne!(first.log_token, second.log_token);
    one.crash();
    assert_eq!(open(&one, None).unwrap(), later(&first));
    assert_eq!(open(&one, Some(first.cluster)).unwrap(), later(&later(&first)));

    let joined = open(&SimDisk::new(3), Some(first.cluster)).unwrap();
    assert_eq!(joined.cluster, first.cluster);
    assert_ne!(joined.log_token, first.log_token);
    let stranger = open(&two, Some(first.cluster)).unwrap_err();
    assert_eq!(stranger.kind(), ErrorKind::Invalid);
    let told = stranger.to_string();
    assert!(told.contains(&first.cluster.to_string()) && told.contains(&second.cluster.to_string()), "{told}");
}

#[test]
fn a_folder_that_is_nobodys_is_created_only_for_a_node_that_is_named() {
    let unnamed = Wanted { cluster: None, node: None };
    let disk = SimDisk::new(1);
    let refused = NodeIdentity::open(unnamed, &disk, Path::new(FOLDER)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    assert_eq!(peek(&disk), None);
    let first = open(&disk, None).unwrap();
    assert_eq!(NodeIdentity::open(unnamed, &disk, Path::new(FOLDER)).unwrap(), later(&first));
    let other = NodeIdentity::open(Wanted { cluster: None, node: Some(NodeId(8)) }, &disk, Path::new(FOLDER));
    let other = other.unwrap_err();
    assert!(other.kind() == ErrorKind::Invalid && other.to_string().contains("n7"), "{other}");
    assert_eq!(peek(&disk).unwrap().boot, 2, "a refusal counts as no start");
}

#[test]
fn every_start_is_counted_durably_and_copies_can_be_told_apart() {
    let disk = disk_with(&old(3));
    for boot in 1..4 {
        assert_eq!(open(&disk, None).unwrap().boot, boot);
        disk.crash();
        let said = peek(&disk).unwrap();
        assert_eq!((said.boot, said.node, said.cluster), (boot, NodeId(7), Some(fixed_sets("").cluster)));
        assert_eq!(said.program.as_deref(), Some(PROGRAM_VERSION));
    }
}

#[test]
fn a_folder_of_version_1_becomes_a_cluster_and_stays_it() {
    let disk = disk_with(&old(1));
    let said = peek(&disk).unwrap();
    assert_eq!((said.cluster, said.node, said.boot), (None, NodeId(7), 0));
    let refused = open(&disk, Some(ClusterId(5))).unwrap_err();
    assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("a node alone"), "{refused}");
    let found = open(&disk, None).unwrap();
    let replicas: Vec<_> = found.replicas.clone().into_iter().collect();
    assert_eq!(replicas, [live(0, 7), live(1, 7), live(2, 7)], "the ids that its replicas have in its log");
    disk.crash();
    assert_eq!(open(&disk, None).unwrap(), later(&found));
    assert_ne!(open(&disk_with(&old(1)), None).unwrap().cluster, found.cluster);
}

#[test]
fn a_crash_at_every_operation_of_the_step_from_an_old_version_leaves_a_folder_that_opens() {
    for version in 1..=3 {
        for operations in 0.. {
            let disk = disk_with(&old(version));
            disk.power_off_after(operations);
            let opened = open(&disk, None);
            disk.crash();
            let found = open(&disk, None).unwrap_or_else(|error| panic!("after {operations} operations: {error}"));
            assert_eq!((found.node, found.replicas.len(), found.next_group), (NodeId(7), 3, 3));
            if let Ok(before) = opened {
                assert_eq!(found, later(&before));
                break;
            }
        }
    }
}

#[test]
fn a_crash_at_every_operation_of_a_change_leaves_the_old_or_the_new() {
    for operations in 0.. {
        let disk = disk_with(&sample("0.1.0").encode());
        let mut identity = open(&disk, None).unwrap();
        let before = identity.clone();
        disk.power_off_after(operations);
        let changed = change(&mut identity, &disk, |next| next.add(persisted(9), ReplicaId(99), 1));
        let is_changed = identity.replicas.contains_key(&(persisted(9), ReplicaId(99)));
        assert_eq!(is_changed, changed.is_ok(), "what failed has not happened");
        disk.crash();
        let found = open(&disk, None).unwrap_or_else(|error| panic!("after {operations} operations: {error}"));
        if changed.is_ok() {
            assert_eq!(found, later(&identity));
            break;
        }
        let mut after = before.clone();
        after.add(persisted(9), ReplicaId(99), 1);
        assert!(found == later(&before) || found == later(&after), "{found:?}");
    }
}

#[test]
fn golden_identities_are_what_is_written() {
    let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
    golden.check("identity", &IDENTITY, &sample("0.1.0").encode());
    for (version, expected) in [(3, fixed_sets("0.1.0")), (4, sample("0.1.0"))] {
        let Read { version: found, identity } =
            NodeIdentity::decode(&old(version), old(version).len() as u64).ok().unwrap();
        assert_eq!((found, identity), (version, expected));
    }
}

#[test]
fn a_folder_of_version_2_stays_the_cluster_that_it_is() {
    let disk = disk_with(&old(2));
    let found = open(&disk, None).unwrap();
    assert_eq!(found, later(&fixed_sets(PROGRAM_VERSION)));
    disk.crash();
    let file = disk.open(&Path::new(FOLDER).join(FILE), OpenMode::Existing).unwrap();
    let mut version = [0];
    file.read_exact_at(&mut version, 8).unwrap();
    assert_eq!(version, [IDENTITY.written()], "it is written anew");
    assert_eq!(open(&disk, Some(found.cluster)).unwrap(), later(&found));
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
fn no_group_is_given_twice_and_the_oldest_tombstones_go_first() {
    let mut identity = fixed_sets("0.1.0");
    identity.bury(persisted(1), ReplicaId(12));
    identity.add(persisted(1), ReplicaId(30), 0);
    let records: Vec<_> = identity.of_set(persisted(1)).collect();
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].0, records[0].1.group, records[0].1.phase), (ReplicaId(30), GroupId(3), Phase::Creating));
    for id in 0..TOMBSTONES_MAX as u64 {
        identity.bury(volatile(0), ReplicaId(id));
        identity.bury(volatile(0), ReplicaId(id));
    }
    assert_eq!(identity.tombstones.len(), TOMBSTONES_MAX);
    assert!(!identity.is_buried(persisted(1), ReplicaId(12)));
    assert!(identity.is_buried(volatile(0), ReplicaId(0)) && !identity.is_buried(volatile(1), ReplicaId(0)));
    assert!(identity.encode().len() as u64 <= BYTES_MAX);
}

#[test]
fn whatever_is_damaged_is_refused() {
    let whole = sample("0.1.0").encode();
    for len in 0..whole.len() {
        assert_eq!(open(&disk_with(&whole[..len]), None).unwrap_err().kind(), ErrorKind::Corrupt, "cut off at {len}");
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
