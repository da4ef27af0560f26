use super::*;

fn root() -> &'static Path {
    Path::new("/")
}

fn create(disk: &SimDisk, path: &str) -> Arc<dyn DiskFile> {
    let file = disk.open(Path::new(path), OpenMode::New).unwrap();
    disk.sync_dir(root()).unwrap();
    file
}

fn content(disk: &SimDisk, path: &str) -> Vec<u8> {
    let file = disk.open(Path::new(path), OpenMode::Existing).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn sim_disk_conforms() {
    let disk = SimDisk::new(0);
    disk.create_dir_all(Path::new("/folder")).unwrap();
    crate::disk::conformance::check(&disk, Path::new("/folder"));
}

#[test]
fn a_crash_keeps_what_was_synced_and_tears_the_rest_between_sectors() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let file = create(&disk, "/a");
        file.allocate(8192).unwrap();
        file.write_all_at(&[1; 700], 0).unwrap();
        file.sync().unwrap();
        file.write_all_at(&[2; 1000], 100).unwrap();
        file.write_all_at(&[3; 5000], 1100).unwrap();
        disk.crash();
        let bytes = content(&disk, "/a");
        assert_eq!(bytes.len(), 8192);
        assert!(bytes[..100].iter().all(|byte| *byte == 1));
        // Each sector piece of each write is there or not, as a whole.
        for (from, to, new, old) in [(100, 512, 2, 1), (512, 700, 2, 1), (700, 1024, 2, 0), (1536, 2048, 3, 0)] {
            let piece = &bytes[from..to];
            assert!(piece.iter().all(|byte| *byte == new) || piece.iter().all(|byte| *byte == old));
        }
        assert_eq!(bytes[600] == 2, bytes[800] == 2, "one sector, one fate");
        outcomes.insert(bytes);
    }
    assert!(outcomes.len() > 50, "only {} outcomes", outcomes.len());
}

#[test]
fn the_same_seed_and_calls_give_the_same_outcome() {
    let run = |seed| {
        let disk = SimDisk::new(seed);
        let mut outcome = Vec::new();
        for round in 0..20u8 {
            let path = format!("/{round}");
            let file = disk.open(Path::new(&path), OpenMode::New).unwrap();
            file.write_all_at(&[round; 3000], u64::from(round) * 10).unwrap();
            if round % 3 == 0 {
                file.sync().unwrap();
                disk.sync_dir(root()).unwrap();
            }
            disk.crash();
            for name in disk.list(root()).unwrap() {
                outcome.push(content(&disk, &format!("/{name}")));
            }
        }
        outcome
    };
    for seed in 0..20 {
        assert!(run(seed) == run(seed));
    }
    assert!(run(1) != run(2));
}

#[test]
fn names_that_were_not_synced_may_go_and_a_rename_is_one_of_the_two() {
    let (mut created, mut removed, mut renamed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        for (path, byte) in [("/removed", 0), ("/target", 1), ("/source", 2)] {
            let file = create(&disk, path);
            file.write_all_at(&[byte; 10], 0).unwrap();
            file.sync().unwrap();
        }
        disk.open(Path::new("/created"), OpenMode::New).unwrap();
        disk.remove(Path::new("/removed")).unwrap();
        disk.rename(Path::new("/source"), Path::new("/target")).unwrap();
        disk.crash();
        let names = disk.list(root()).unwrap();
        created.insert(names.iter().any(|name| name == "created"));
        removed.insert(names.iter().any(|name| name == "removed"));
        let target = content(&disk, "/target");
        assert_eq!(target, if names.iter().any(|name| name == "source") { [1; 10] } else { [2; 10] });
        renamed.insert(target);
    }
    assert_eq!((created.len(), removed.len(), renamed.len()), (2, 2, 2));
}

#[test]
fn handles_and_locks_die_with_the_machine() {
    let disk = SimDisk::new(0);
    let file = create(&disk, "/a");
    let lock = disk.lock(Path::new("/lock")).unwrap();
    disk.crash();
    assert!(file.write_all_at(b"x", 0).unwrap_err().to_string().contains("crashed"));
    assert!(file.sync().is_err() && file.len().is_err() && file.read_exact_at(&mut [0], 0).is_err());
    let again = disk.lock(Path::new("/lock")).unwrap();
    drop(lock);
    assert_eq!(disk.lock(Path::new("/lock")).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(again);
    disk.lock(Path::new("/lock")).unwrap();
}

#[test]
fn a_process_that_ends_loses_its_handles_and_locks_and_nothing_else() {
    let disk = SimDisk::new(0);
    let file = create(&disk, "/a");
    file.write_all_at(b"never synced", 0).unwrap();
    let lock = disk.lock(Path::new("/lock")).unwrap();
    assert!(disk.is_locked());
    disk.end_process();
    assert!(!disk.is_locked() && file.write_all_at(b"x", 0).is_err());
    assert_eq!(content(&disk, "/a"), b"never synced");
    let again = disk.lock(Path::new("/lock")).unwrap();
    drop((lock, file));
    assert!(disk.is_locked(), "the lock of the process before is not that of the next");
    drop(again);
    let lost = (0..50).filter(|seed| {
        let disk = SimDisk::new(*seed);
        let file = create(&disk, "/a");
        file.sync().unwrap();
        file.write_all_at(b"never synced", 0).unwrap();
        disk.end_process();
        disk.crash();
        content(&disk, "/a").is_empty()
    });
    assert!((5..45).contains(&lost.count()), "what was not synced can be lost later");
}

#[test]
fn a_loss_of_power_can_be_taken_back_until_it_has_come() {
    let disk = SimDisk::new(0);
    let file = create(&disk, "/a");
    disk.power_off_after(1);
    assert!(disk.keep_power());
    file.write_all_at(b"one", 0).unwrap();
    file.write_all_at(b"two", 0).unwrap();
    disk.power_off_after(1);
    file.sync().unwrap();
    assert!(!disk.keep_power() && disk.is_without_power());
    file.sync().unwrap_err();
    disk.crash();
    assert!(disk.keep_power());
}

#[test]
fn faults_strike_where_they_were_asked_for() {
    let disk = SimDisk::new(0);
    let (a, b) = (create(&disk, "/a"), create(&disk, "/b"));
    disk.inject(Fault::on(DiskOp::Write).path("/a").nth(2));
    a.write_all_at(b"1", 0).unwrap();
    b.write_all_at(b"1", 0).unwrap();
    assert_eq!(a.write_all_at(b"2", 0).unwrap_err().kind(), io::ErrorKind::Other);
    a.write_all_at(b"3", 0).unwrap();
    disk.inject(Fault::on(DiskOp::Open).times(u64::MAX).kind(io::ErrorKind::PermissionDenied));
    for _ in 0..2 {
        let error = disk.open(Path::new("/a"), OpenMode::Existing).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
    assert_eq!(disk.struck(), 3);
    disk.heal();
    disk.open(Path::new("/a"), OpenMode::Existing).unwrap();
}

#[test]
fn a_full_disk_says_so_until_there_is_room() {
    let disk = SimDisk::new(0);
    disk.set_capacity(Some(1000));
    let (a, b) = (create(&disk, "/a"), create(&disk, "/b"));
    a.allocate(600).unwrap();
    assert_eq!(b.allocate(500).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(b.len().unwrap(), 0);
    a.write_all_at(&[1; 600], 0).unwrap();
    b.write_all_at(&[1; 400], 0).unwrap();
    assert_eq!(b.write_all_at(&[1; 2], 399).unwrap_err().kind(), io::ErrorKind::StorageFull);
    drop(a);
    disk.remove(Path::new("/a")).unwrap();
    disk.sync_dir(root()).unwrap();
    b.write_all_at(&[1; 600], 400).unwrap();
    assert_eq!(disk.used_bytes(), 1000);
}

#[test]
fn a_failed_sync_cannot_be_made_good_by_the_next() {
    let mut lost = 0;
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let file = create(&disk, "/a");
        file.allocate(4096).unwrap();
        file.sync().unwrap();
        file.write_all_at(&[1; 512], 0).unwrap();
        disk.inject(Fault::on(DiskOp::Sync));
        file.sync().unwrap_err();
        file.write_all_at(&[2; 512], 512).unwrap();
        file.sync().unwrap();
        assert_eq!(content(&disk, "/a")[0], 1, "readers go on seeing what was written");
        disk.crash();
        let bytes = content(&disk, "/a");
        assert!(bytes[512..1024].iter().all(|byte| *byte == 2));
        lost += usize::from(bytes[0] == 0);
    }
    assert!(lost > 5 && lost < 45, "{lost}");
}

#[test]
fn the_power_goes_where_it_was_asked_to() {
    let disk = SimDisk::new(0);
    let file = create(&disk, "/a");
    disk.power_off_after(2);
    file.write_all_at(b"one", 0).unwrap();
    file.sync().unwrap();
    file.write_all_at(b"two", 0).unwrap_err();
    disk.open(Path::new("/b"), OpenMode::Either).unwrap_err();
    disk.crash();
    assert_eq!(content(&disk, "/a"), b"one");
}

#[test]
fn damage_is_durable() {
    let disk = SimDisk::new(0);
    let file = create(&disk, "/a");
    file.write_all_at(&[0; 10], 0).unwrap();
    disk.flip_bit(Path::new("/a"), 3, 1).unwrap();
    file.sync().unwrap();
    disk.flip_bit(Path::new("/a"), 4, 0).unwrap();
    disk.crash();
    assert_eq!(content(&disk, "/a")[..6], [0, 0, 0, 2, 1, 0]);
    disk.cut(Path::new("/a"), 4).unwrap();
    disk.crash();
    assert_eq!(content(&disk, "/a").len(), 4);
    assert!(disk.flip_bit(Path::new("/a"), 4, 0).is_err());
}

#[test]
fn large_sectors_are_whole_and_one_that_is_written_in_part_may_be_lost() {
    let mut lost = 0;
    for seed in 0..200 {
        let disk = SimDisk::with_large_sectors(seed);
        let cached = create(&disk, "/a");
        let file = disk.open_direct(Path::new("/a"), OpenMode::Existing).unwrap();
        file.write_all_at(&[1; 5 * 4096], 0).unwrap();
        file.sync().unwrap();
        file.write_all_at(&[2; 4096], 4096).unwrap();
        file.write_all_at(&[3; 100], 2 * 4096 + 50).unwrap();
        cached.write_all_at(&[4; 100], 4 * 4096 + 50).unwrap();
        disk.crash();
        let bytes = content(&disk, "/a");
        let is = |range: std::ops::Range<usize>, byte: u8| bytes[range].iter().all(|found| *found == byte);
        assert!(is(0..4096, 1) && is(3 * 4096..4 * 4096, 1), "nobody has written there");
        assert!(is(4096..8192, 1) || is(4096..8192, 2), "a whole sector is old or new");
        lost += u32::from(!is(8192..8242, 1));
        assert!(is(4 * 4096..4 * 4096 + 50, 1), "the cache writes whole pages");
    }
    assert!((10..100).contains(&lost), "{lost} of 200 were lost");
}
