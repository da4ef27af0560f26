use std::path::Path;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Epoch, ErrorKind, Level, NodeId, PartitionId, SetId, task};
use mainstay_replica::{Role, SETS_PER_LEVEL, UniformSetsOptions};
use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
use mainstay_store::disk::{Disk as _, OpenMode};

use crate::harness::{FOLDER, LEVELS, Nodes, at_primary, founded, get, options, put};

#[tokio::test(start_paused = true)]
async fn all_levels_through_the_same_handle_and_partitions_by_id() {
    let nodes = Nodes::default();
    let process = founded(&nodes, &SimDisk::new(1), options(1)).await;
    let replicas = &process.replicas;
    assert_eq!(replicas.replicas().count(), 2 * usize::from(SETS_PER_LEVEL));
    assert_eq!(SETS_PER_LEVEL, 8);
    for level in LEVELS {
        for id in 0..20 {
            let partition = replicas.partition(level, PartitionId(id));
            assert_eq!(partition.set(), SetId { level, number: (id % 8) as u16 });
            put(&partition, "k", &format!("{level} {id}")).await.unwrap();
        }
        for id in 0..20 {
            let partition = replicas.partition(level, PartitionId(id));
            assert_eq!(get(&partition, "k"), Some(format!("{level} {id}")), "partitions of a set are apart");
            let epoch = partition.check().unwrap();
            assert_eq!(partition.read().unwrap().epoch(), epoch);
            assert_eq!(partition.role_state().role, Role::Primary);

            let mut other = partition.batch();
            other.put(b"k", b"lost").in_epoch(Epoch(epoch.0 + 1));
            let refused = partition.commit(other).await.unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::NotPrimary { .. }), "{level}: {refused}");
            let mut huge = partition.batch();
            huge.put(b"k", &vec![0; 17 << 20]);
            assert_eq!(partition.commit(huge).await.unwrap_err().kind(), ErrorKind::TooLarge, "{level}");
        }
        let (one, two) = (replicas.partition(level, PartitionId(3)), replicas.partition(level, PartitionId(11)));
        let (mut first, mut second) = (one.batch(), two.batch());
        first.put(b"t", b"1");
        second.put(b"t", b"2");
        one.commit_together(vec![first, second]).await.unwrap();
        assert_eq!((get(&one, "t"), get(&two, "t")), (Some("1".into()), Some("2".into())));
        let stranger = replicas.partition(level, PartitionId(4)).batch();
        assert_eq!(one.commit_together(vec![stranger]).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_stopped_serves_nothing_on_any_level() {
    let nodes = Nodes::default();
    let process = founded(&nodes, &SimDisk::new(1), options(1)).await;
    let partitions = LEVELS.map(|level| process.replicas.partition(level, PartitionId(1)));
    for partition in &partitions {
        put(partition, "k", "v").await.unwrap();
    }
    process.replicas.stop().await;
    for (level, partition) in LEVELS.into_iter().zip(&partitions) {
        assert_eq!(put(partition, "k", "lost").await.unwrap_err().kind(), ErrorKind::Fatal, "{level}");
        let not_primary = ErrorKind::NotPrimary { hint: None };
        assert_eq!(partition.get(b"k").unwrap_err().kind(), not_primary, "{level}");
        assert_eq!(partition.held(b"k").unwrap_err().kind(), not_primary, "{level}");
        assert_eq!(partition.read().unwrap_err().kind(), not_primary, "{level}");
        let role_state = *partition.watch().borrow();
        assert_eq!((role_state.role, role_state.primary), (Role::Secondary, None), "{level}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_as_many_batches_as_allowed_fits_the_smallest_log_that_is_allowed() {
    let nodes = Nodes::default();
    let mut least = options(1);
    // What `UniformSetsOptions` demands, to the byte: commits of 16 MiB and 1 MiB beside them.
    least.log.batch_bytes_max = 17 << 20;
    least.log.queue_bytes_max = least.log.queue_bytes_max.max(17 << 20);
    let process = founded(&nodes, &SimDisk::new(1), least).await;
    for level in LEVELS {
        let partition = process.replicas.partition(level, PartitionId(1));
        let batches = |count: usize| -> Vec<_> {
            let full = |number: usize| {
                let mut batch = partition.batch();
                batch.put(&number.to_be_bytes(), &[7; 200]);
                batch
            };
            (0..count).map(full).collect()
        };
        partition.commit_together(batches(1 << 16)).await.unwrap_or_else(|error| panic!("{level}: {error}"));
        let refused = partition.commit_together(batches((1 << 16) + 1)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "{level}");
        put(&partition, "k", "goes on").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn persisted_state_survives_and_the_rest_does_not() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    for crash in [false, true] {
        let process = founded(&nodes, &disk, options(1)).await;
        let key = format!("crash {crash}");
        for level in LEVELS {
            for id in 0..8 {
                put(&process.replicas.partition(level, PartitionId(id)), &key, "v").await.unwrap();
            }
        }
        if crash {
            nodes.kill(process, &disk);
        } else {
            nodes.stop(process).await;
        }
        let process = founded(&nodes, &disk, options(1)).await;
        for level in LEVELS {
            for id in 0..8 {
                let found = get(&process.replicas.partition(level, PartitionId(id)), &key);
                assert_eq!(found.is_some(), level == Level::Persisted, "{level} after {key}");
            }
        }
        nodes.kill(process, &disk);
    }
}

#[tokio::test(start_paused = true)]
async fn a_folder_is_opened_only_by_its_node_and_by_one_process() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    let process = founded(&nodes, &disk, options(1)).await;
    let second = nodes.open(&disk, options(1)).await.err().unwrap();
    assert_eq!(second.kind(), ErrorKind::Conflict, "{second}");
    put(&process.replicas.partition(Level::Persisted, PartitionId(1)), "k", "v").await.unwrap();
    nodes.stop(process).await;

    let other = nodes.open(&disk, options(2)).await.err().unwrap();
    assert!(other.kind() == ErrorKind::Invalid && other.to_string().contains("n1"), "{other}");
    let more = nodes.open(&disk, UniformSetsOptions { sets_per_level: 4, ..options(1) }).await.err().unwrap();
    assert!(more.kind() == ErrorKind::Invalid && more.to_string().contains("8 sets"), "{more}");
    let none = nodes.open(&disk, UniformSetsOptions { sets_per_level: 0, ..options(1) }).await.err().unwrap();
    assert_eq!(none.kind(), ErrorKind::Invalid);

    let identity = Path::new(FOLDER).join("identity");
    disk.set_byte(&identity, 8, 9).unwrap();
    let version = nodes.open(&disk, options(1)).await.err().unwrap();
    assert_eq!(version.kind(), ErrorKind::UnknownVersion, "{version}");
    disk.set_byte(&identity, 8, 4).unwrap();
    for offset in [0, 9, 17, 19, 35, 99, 100] {
        disk.flip_bit(&identity, offset, 3).unwrap();
        let damaged = nodes.open(&disk, options(1)).await.err().unwrap();
        assert_eq!(damaged.kind(), ErrorKind::Corrupt, "byte {offset}: {damaged}");
        disk.flip_bit(&identity, offset, 3).unwrap();
    }
    let process = founded(&nodes, &disk, options(1)).await;
    assert_eq!(get(&process.replicas.partition(Level::Persisted, PartitionId(1)), "k").as_deref(), Some("v"));
    nodes.stop(process).await;
    disk.open(&identity, OpenMode::Existing).unwrap().set_len(5).unwrap();
    assert_eq!(nodes.open(&disk, options(1)).await.err().unwrap().kind(), ErrorKind::Corrupt);
    disk.remove(&identity).unwrap();
    let missing = nodes.open(&disk, options(1)).await.err().unwrap();
    assert!(missing.kind() == ErrorKind::Corrupt && missing.to_string().contains("identity"), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn options_that_contradict_each_other_are_refused_by_their_names_before_anything_is_done() {
    type Contradict = fn(&mut UniformSetsOptions);
    let contradictions: [(Contradict, [&str; 2]); 4] = [
        (
            |options| options.replica.commit.waiting_bytes_max = 1 << 20,
            ["commit.bytes_max", "commit.waiting_bytes_max"],
        ),
        (|options| options.replica.checkpoint.bytes = 1 << 30, ["checkpoint.bytes", "checkpoint.unsaved_bytes_max"]),
        (|options| options.log.batch_bytes_max = 16 << 20, ["commit.bytes_max", "log.batch_bytes_max"]),
        (
            |options| options.replica.commit.entry_bytes_max = 64 << 20,
            ["commit.entry_bytes_max", "log.batch_bytes_max"],
        ),
    ];
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    for (contradict, names) in contradictions {
        let mut options = options(1);
        contradict(&mut options);
        let error = nodes.open(&disk, options).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(names.iter().all(|name| error.to_string().contains(name)), "{error}");
    }
    assert!(disk.list(Path::new(FOLDER)).is_err(), "no folder was made");
}

#[tokio::test(start_paused = true)]
async fn a_folder_whose_creation_was_cut_short_keeps_its_identity_after_a_crash() {
    for seed in 0..10 {
        let (nodes, disk) = (Nodes::default(), SimDisk::new(seed));
        // The process is killed between the rename of the identity and the sync of the folder.
        disk.inject(Fault::on(DiskOp::SyncDir).path(FOLDER));
        assert!(nodes.open(&disk, options(1)).await.is_err());
        let process = founded(&nodes, &disk, options(1)).await;
        put(&process.replicas.partition(Level::Persisted, PartitionId(1)), "k", "v").await.unwrap();
        nodes.kill(process, &disk);
        let process = founded(&nodes, &disk, options(1)).await;
        let found = get(&process.replicas.partition(Level::Persisted, PartitionId(1)), "k");
        assert_eq!(found.as_deref(), Some("v"), "seed {seed}");
        nodes.kill(process, &disk);
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_could_not_be_opened_leaves_the_folder_free() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    let process = founded(&nodes, &disk, options(1)).await;
    put(&process.replicas.partition(Level::Persisted, PartitionId(7)), "k", "v").await.unwrap();
    nodes.stop(process).await;
    // The store of the last set is damaged: the replicas of all others have been started by then.
    let last = Path::new(FOLDER).join("state").join(format!("{}.redb", SetId { level: Level::Persisted, number: 7 }));
    disk.set_byte(&last, 0, 0xff).unwrap();
    assert!(nodes.open(&disk, options(1)).await.is_err());
    let first = disk.open(&last, OpenMode::Existing).unwrap();
    drop(first);
    disk.remove(&last).unwrap();
    let freed = async {
        // Tasks that were stopped are dropped when they are next scheduled.
        loop {
            match nodes.open(&disk, options(1)).await {
                Ok(process) => return process,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(Duration::from_secs(5), freed).await.expect("the folder is free again");
}

/// Reads a whole file, as who copies a folder does.
fn copied(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Existing).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Puts a copy in the place of a file.
fn restore(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, OpenMode::Either).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

/// A folder of one node whose log of set 0 was cut, with a copy of the state file from before that.
async fn folder_with_a_cut_log(nodes: &Nodes, disk: &SimDisk, options: UniformSetsOptions, state: &Path) -> Vec<u8> {
    let process = founded(nodes, disk, options).await;
    let partition = process.replicas.partition(Level::Persisted, PartitionId(0));
    put(&partition, "early", "1").await.unwrap();
    let replica = process.replicas.replica(partition.set()).unwrap();
    replica.checkpoint().await.unwrap();
    let early = copied(disk, state);
    for number in 0..10 {
        put(&partition, &format!("k{number}"), &"x".repeat(100_000)).await.unwrap();
    }
    replica.checkpoint().await.unwrap();
    let cut = async {
        while replica.status().log_first == 0 {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(Duration::from_secs(5), cut).await.expect("the log is cut");
    put(&partition, "late", "2").await.unwrap();
    drop(partition);
    nodes.stop(process).await;
    early
}

#[tokio::test(start_paused = true)]
async fn a_state_file_that_is_missing_or_older_than_the_log_is_refused() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    let mut few = UniformSetsOptions { sets_per_level: 1, ..options(1) };
    few.replica.checkpoint.log_keep_bytes = 0;
    let state = Path::new(FOLDER).join("state").join("persisted-0.redb");
    let early = folder_with_a_cut_log(&nodes, &disk, few.clone(), &state).await;
    let newest = copied(&disk, &state);

    let refused = async || {
        let error = nodes.open(&disk, few.clone()).await.err().expect("a state with a gap behind it");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        let text = error.to_string();
        assert!(text.contains("/data/state/persisted-0.redb") && text.contains("restore"), "{text}");
    };
    disk.remove(&state).unwrap();
    refused().await;
    let left = disk.list(state.parent().unwrap()).unwrap();
    assert!(!left.contains(&"persisted-0.redb".to_owned()), "an empty file must not take its place: {left:?}");
    restore(&disk, &state, &early);
    refused().await;

    restore(&disk, &state, &newest);
    let process = founded(&nodes, &disk, few.clone()).await;
    let partition = process.replicas.partition(Level::Persisted, PartitionId(0));
    assert_eq!((get(&partition, "early").as_deref(), get(&partition, "late").as_deref()), (Some("1"), Some("2")));
}

#[tokio::test(start_paused = true)]
async fn a_state_file_that_is_missing_while_the_log_is_whole_is_made_anew() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    let process = founded(&nodes, &disk, options(1)).await;
    let partition = process.replicas.partition(Level::Persisted, PartitionId(0));
    put(&partition, "k", "v").await.unwrap();
    process.replicas.replica(partition.set()).unwrap().checkpoint().await.unwrap();
    drop(partition);
    nodes.stop(process).await;
    disk.remove(&Path::new(FOLDER).join("state").join("persisted-0.redb")).unwrap();
    let process = founded(&nodes, &disk, options(1)).await;
    assert_eq!(get(&process.replicas.partition(Level::Persisted, PartitionId(0)), "k").as_deref(), Some("v"));
}

#[tokio::test(start_paused = true)]
async fn a_folder_whose_log_is_gone_is_refused() {
    let cases = [(true, true), (true, false), (false, true), (false, false)];
    for ((checkpointed, folder_stays), states_stay) in cases.into_iter().flat_map(|case| [(case, true), (case, false)])
    {
        let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
        let process = founded(&nodes, &disk, options(1)).await;
        let partition = process.replicas.partition(Level::Persisted, PartitionId(0));
        put(&partition, "k", "v").await.unwrap();
        if checkpointed {
            process.replicas.replica(partition.set()).unwrap().checkpoint().await.unwrap();
        }
        drop(partition);
        nodes.stop(process).await;
        let log = Path::new(FOLDER).join("log");
        for name in disk.list(&log).unwrap() {
            disk.remove(&log.join(name)).unwrap();
        }
        if !folder_stays {
            disk.lose_dir(&log);
        }
        if !states_stay {
            // What is left is a name: the replicas must not come back under it without their memory.
            disk.lose_dir(&Path::new(FOLDER).join("state"));
        }
        let before = disk.list(Path::new(FOLDER)).unwrap();
        for _ in 0..2 {
            let error = nodes.open(&disk, options(1)).await.err().expect("a state without a log");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            let text = error.to_string();
            assert!(text.contains("/data/log") && text.contains("restore"), "{text}");
        }
        assert_eq!(disk.list(Path::new(FOLDER)).unwrap(), before, "nothing was made in its place");
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_start_that_was_cut_short_anywhere_is_taken_up_again() {
    let few = UniformSetsOptions { sets_per_level: 1, ..options(1) };
    let mut operations = 0;
    loop {
        let (nodes, disk) = (Nodes::default(), SimDisk::new(operations));
        disk.power_off_after(operations);
        let opened = nodes.open(&disk, few.clone()).await;
        let is_whole = opened.is_ok();
        if let Ok(process) = opened {
            nodes.kill(process, &disk);
        }
        disk.crash();
        let process = nodes.open(&disk, few.clone()).await.unwrap_or_else(|error| {
            panic!("it cannot be opened after a crash {operations} operations after its first start: {error}")
        });
        process.replicas.bootstrap().await.unwrap();
        put(&at_primary(&[&process], Level::Persisted, 0).await, "k", "v").await.unwrap();
        nodes.kill(process, &disk);
        if is_whole {
            break;
        }
        operations += 1;
    }
    assert!(operations > 20, "{operations} operations are hardly a start");
}

#[tokio::test(start_paused = true)]
async fn the_log_is_cut_however_short_each_run_is() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    let mut few = UniformSetsOptions { sets_per_level: 1, ..options(1) };
    few.replica.checkpoint.log_keep_bytes = 1 << 20;
    for run in 0..10 {
        let process = founded(&nodes, &disk, few.clone()).await;
        let partition = process.replicas.partition(Level::Persisted, PartitionId(0));
        for number in 0..4 {
            put(&partition, &format!("{run} {number}"), &"x".repeat(100_000)).await.unwrap();
        }
        let replica = process.replicas.replica(partition.set()).unwrap();
        replica.checkpoint().await.unwrap();
        if run == 9 {
            // Of four megabytes: one and a little more, and the entries that each start adds.
            let is_cut = async {
                while replica.status().log_next - replica.status().log_first > 24 {
                    time::sleep(Duration::from_millis(10)).await;
                }
            };
            time::timeout(Duration::from_secs(5), is_cut).await.expect("the log is cut");
        }
        drop(partition);
        nodes.stop(process).await;
    }
}

#[tokio::test(start_paused = true)]
async fn three_hosts_become_one_system_and_outlive_restarts() {
    let nodes = Nodes::default();
    let disks = [SimDisk::new(1), SimDisk::new(2), SimDisk::new(3)];
    let few = |node| UniformSetsOptions { sets_per_level: 2, ..options(node) };
    let all: Vec<NodeId> = (1..=3).map(NodeId).collect();
    let first = founded(&nodes, &disks[0], few(1)).await;
    let cluster = Some(first.replicas.cluster());
    let mut others = Vec::new();
    for node in 2..=3 {
        let process = nodes.open(&disks[node - 1], UniformSetsOptions { cluster, ..few(node as u64) }).await.unwrap();
        process.replicas.join(&all).await.unwrap();
        others.push(process);
    }
    let (third, second) = (others.pop().unwrap(), others.pop().unwrap());
    for level in [Level::Persisted, Level::Volatile] {
        for id in 0..4 {
            put(&at_primary(&[&first, &second, &third], level, id).await, "k", "1").await.unwrap();
        }
    }
    let volatile = SetId { level: Level::Volatile, number: 0 };
    let persisted = SetId { level: Level::Persisted, number: 0 };
    let before = first.replicas.replica(volatile).unwrap().status().identity.replica;
    let persisted_before = first.replicas.replica(persisted).unwrap().status().identity.replica;
    nodes.kill(first, &disks[0]);
    for level in [Level::Persisted, Level::Volatile] {
        for id in 0..4 {
            let partition = at_primary(&[&second, &third], level, id).await;
            assert_eq!(get(&partition, "k").as_deref(), Some("1"), "{level}");
            put(&partition, "k", "2").await.unwrap();
        }
    }
    let first = nodes.open(&disks[0], few(1)).await.unwrap();
    first.replicas.join(&all).await.unwrap();
    let members = first.replicas.replica(volatile).unwrap().status();
    assert_ne!(members.identity.replica, before, "a volatile replica that restarts is another one");
    assert_eq!(members.voters.get(&members.identity.replica), Some(&NodeId(1)));
    assert!(!members.voters.contains_key(&before) && members.voters.len() == 3, "{members:?}");
    let members = first.replicas.replica(persisted).unwrap().status();
    assert_eq!(members.identity.replica, persisted_before, "a persisted one stays who it is");
    assert_eq!(members.voters.get(&persisted_before), Some(&NodeId(1)));
    // With the second gone, the first is needed for a quorum.
    nodes.kill(second, &disks[1]);
    for level in [Level::Persisted, Level::Volatile] {
        for id in 0..4 {
            let partition = at_primary(&[&first, &third], level, id).await;
            assert_eq!(get(&partition, "k").as_deref(), Some("2"), "{level}");
            put(&partition, "k", "3").await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_set_that_is_not_here_is_answered() {
    let nodes = Nodes::default();
    let process = founded(&nodes, &SimDisk::new(1), options(1)).await;
    let nowhere = SetId { level: Level::Persisted, number: 99 };
    assert!(!process.replicas.receive(NodeId(2), nowhere, vec![1, 2, 3].into()).await.is_empty());
    assert!(process.replicas.replica(nowhere).is_none());
}

/// The identity of node 1 with eight sets per level in format version 1.
fn identity_of_version_1() -> Vec<u8> {
    let mut bytes = b"MAINSTAY\x01\x01\0\0\0\0\0\0\0\x08\0".to_vec();
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn read(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Existing).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_another_node_is_opening_gets_no_second_identity() {
    let (nodes, disk, folder) = (Nodes::default(), SimDisk::new(1), Path::new(FOLDER));
    disk.create_dir_all(folder).unwrap();
    let other = disk.lock(&folder.join("lock")).unwrap();
    let refused = nodes.open(&disk, options(1)).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert!(refused.to_string().contains("/data is in use by"), "{refused}");
    assert_eq!(disk.list(folder).unwrap(), ["lock"], "nothing was written");

    let waiting = task::spawn({
        let disk = disk.clone();
        async move { Nodes::default().open(&disk, options(1)).await.map(|_| ()) }
    });
    time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished(), "the other node may be done soon");
    drop(other);
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_identity_of_version_1_stays_while_its_log_is_in_use() {
    let (nodes, disk, folder) = (Nodes::default(), SimDisk::new(1), Path::new(FOLDER));
    let identity = folder.join("identity");
    disk.create_dir_all(&folder.join("log")).unwrap();
    let file = disk.open(&identity, OpenMode::New).unwrap();
    file.write_all_at(&identity_of_version_1(), 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(folder).unwrap();
    let running = disk.lock(&folder.join("log/lock")).unwrap();
    let refused = nodes.open(&disk, options(1)).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(read(&disk, &identity), identity_of_version_1());

    drop(running);
    nodes.open(&disk, options(1)).await.map(|_| ()).unwrap();
    assert_eq!(read(&disk, &identity)[8], 4, "replaced once the folder is free");
}
