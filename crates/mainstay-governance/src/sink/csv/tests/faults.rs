//! A disk that loses what was not synced, and one whose syncs fail.

use std::path::Path;

use mainstay::partition::{Disk as _, DiskOp, Fault, OpenMode, SimDisk};
use mainstay::{ErrorKind, Result};

use super::fragile::FragileFiles;
use super::{Event, events};
use crate::owner::{Fence, Opening};
use crate::sink::csv::encode::{encode, header};
use crate::sink::csv::series::{CsvMark, Rows, Series};
use crate::sink::csv::{CsvRotation, CsvSettings};

const FOLDER: &str = "/csv";

/// How many disks each test of chance is about.
const SEEDS: u64 = 12;

fn open(disk: &SimDisk, fence: u64) -> Result<Series<FragileFiles>> {
    let rotation = CsvRotation { rows_max: Some(4), ..CsvRotation::default() };
    let settings = CsvSettings::in_folder(FOLDER).with_rotation(rotation);
    Series::open(FragileFiles(disk.clone()), settings, &Opening::new("clicks", Fence::new(fence)))
}

fn rows(ids: std::ops::Range<u64>) -> Rows {
    let (count, events) = (ids.end - ids.start, events(ids));
    Rows { bytes: encode(&events).unwrap(), count, header: header(&events[0]).unwrap() }
}

/// What a reader sees in all files, in their order.
fn read(disk: &SimDisk) -> Vec<u64> {
    let mut ids = Vec::new();
    for name in disk.list(Path::new(FOLDER)).unwrap().iter().filter(|name| name.ends_with(".csv")) {
        let file = disk.open(&Path::new(FOLDER).join(name), OpenMode::Existing).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        for event in csv::Reader::from_reader(&*bytes).into_deserialize() {
            let event: Event = event.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(events(event.id..event.id + 1).first(), Some(&event));
            ids.push(event.id);
        }
    }
    ids
}

/// What a writer was told.
#[derive(Default)]
struct Told {
    /// The highest token that was accepted.
    fence: u64,
    /// The rows that were acknowledged.
    rows: Vec<u64>,
    /// Those that may be there beside them, in any number.
    maybe: Vec<u64>,
}

impl Told {
    fn open(&mut self, disk: &SimDisk, fence: u64) -> Result<Series<FragileFiles>> {
        let opened = open(disk, fence)?;
        self.fence = fence;
        Ok(opened)
    }

    fn append(
        &mut self,
        series: &mut Series<FragileFiles>,
        ids: std::ops::Range<u64>,
        after: Option<CsvMark>,
    ) -> Result<CsvMark> {
        if let Some(mark) = after {
            // From here on they may be gone.
            self.maybe = self.rows.split_off(mark.rows as usize);
        }
        self.maybe.extend(ids.clone());
        let mark = series.append(&rows(ids.clone()), after)?;
        self.rows.extend(ids);
        self.maybe.clear();
        Ok(mark)
    }

    /// Two openings with several batches in several files, one of which is written again.
    fn work(&mut self, disk: &SimDisk) -> Result<()> {
        let mut series = self.open(disk, 1)?;
        let mark = self.append(&mut series, 0..2, None)?;
        self.append(&mut series, 100..103, None)?;
        self.append(&mut series, 103..105, None)?;
        self.append(&mut series, 2..4, Some(mark))?;
        self.append(&mut series, 4..6, None)?;
        let mut series = self.open(disk, 2)?;
        self.append(&mut series, 6..9, None)?;
        self.append(&mut series, 9..10, None)?;
        self.open(disk, 3)?;
        Ok(())
    }
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_any_operation() {
    for seed in 0..SEEDS {
        for operations in 0.. {
            let disk = SimDisk::new(seed << 32 | operations);
            disk.power_off_after(operations);
            let mut told = Told::default();
            let worked = told.work(&disk);
            let case = format!("seed {seed}, after {operations} operations");
            assert!(worked.is_ok() || disk.is_without_power(), "{case}: {worked:?}");
            disk.crash();
            if let Some(stale) = told.fence.checked_sub(1).filter(|stale| *stale > 0) {
                let error = open(&disk, stale).err().unwrap_or_else(|| panic!("{case}: token {stale} opens"));
                assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{case}: {error}");
            }
            // One more for the next: a token that was written and not acknowledged counts, too.
            let mut series = open(&disk, told.fence + 2).unwrap();
            // What was torn is there until the next batch is written.
            series.append(&rows(50..52), None).unwrap_or_else(|error| panic!("{case}: {error:?}"));
            let found = read(&disk);
            let (found, last) = found.split_at(found.len() - 2);
            assert_eq!(last, [50, 51], "{case}");
            let (kept, more) = found.split_at_checked(told.rows.len()).unwrap_or_else(|| panic!("{case}: {found:?}"));
            assert_eq!(kept, told.rows, "{case}");
            assert!(more.iter().all(|id| told.maybe.contains(id)), "{case}: {more:?}");
            if worked.is_ok() {
                assert!(operations > 50, "{operations} operations are not what this does");
                break;
            }
        }
    }
}

/// On the disk of the simulation as on a real one: what a sync that failed has left can be read, and may not be there after a
/// crash, whatever is synced later.
#[test]
fn a_batch_whose_sync_fails_leaves_nothing_behind() {
    for seed in 0..SEEDS {
        let disk = SimDisk::new(seed);
        let mut series = open(&disk, 1).unwrap();
        series.append(&rows(0..1), None).unwrap();
        disk.inject(Fault::on(DiskOp::Sync).path(".csv"));
        assert_eq!(series.append(&rows(7..8), None).unwrap_err().kind(), ErrorKind::Retry);
        assert_eq!(read(&disk), [0]);
        series.append(&rows(1..2), None).unwrap();
        disk.crash();
        drop(open(&disk, 2).unwrap());
        assert_eq!(read(&disk), [0, 1], "seed {seed}");
    }
}

#[test]
fn a_batch_that_could_not_be_cut_off_either_is_cut_off_before_the_next() {
    for seed in 0..SEEDS {
        for cut in [DiskOp::SetLen, DiskOp::Sync] {
            let disk = SimDisk::new(seed);
            let mut series = open(&disk, 1).unwrap();
            let mark = series.append(&rows(0..1), None).unwrap();
            disk.inject(Fault::on(DiskOp::Sync).path(".csv"));
            disk.inject(Fault::on(cut).path(".csv"));
            series.append(&rows(7..8), None).unwrap_err();
            assert_eq!(series.end().unwrap(), mark);
            assert_eq!(read(&disk), [0]);
            series.append(&rows(1..2), None).unwrap();
            disk.crash();
            drop(open(&disk, 2).unwrap());
            assert_eq!(read(&disk), [0, 1], "seed {seed}");
        }
    }
}

#[test]
fn a_token_whose_sync_fails_does_not_open() {
    let disk = SimDisk::new(1);
    drop(open(&disk, 1).unwrap());
    disk.inject(Fault::on(DiskOp::Sync).path(".fence"));
    assert_eq!(open(&disk, 2).err().unwrap().kind(), ErrorKind::Retry);
    disk.heal();
    drop(open(&disk, 3).unwrap());
    assert!(open(&disk, 2).is_err());
}

#[test]
fn a_disk_that_is_full_is_named_and_takes_rows_again_when_it_is_not() {
    let disk = SimDisk::new(1);
    let mut series = open(&disk, 1).unwrap();
    series.append(&rows(0..1), None).unwrap();
    disk.set_capacity(Some(disk.used_bytes() + 10));
    assert_eq!(series.append(&rows(1..2), None).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(read(&disk), [0]);
    disk.set_capacity(None);
    series.append(&rows(1..2), None).unwrap();
    assert_eq!(read(&disk), [0, 1]);
}
