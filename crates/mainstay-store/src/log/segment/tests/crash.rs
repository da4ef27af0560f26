//! Random batches, a crash at a random moment, and a comparison with a model: what is found is a prefix of what was
//! submitted, and it contains everything that was acknowledged.

use std::collections::BTreeMap;

use mainstay_core::time::Duration;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::log::MemoryLog;

const GROUPS: u64 = 4;

/// All that can be seen of a log.
type Content = BTreeMap<GroupId, (GroupView, Vec<Bytes>)>;

fn content(log: &dyn NodeLog) -> Content {
    let read = |group| {
        let view = log.group(group);
        let entries = log.read(group, view.first..view.next, usize::MAX).unwrap();
        assert_eq!(entries.len() as u64, view.next - view.first);
        (view, entries)
    };
    log.groups().into_iter().map(|group| (group, read(group))).collect()
}

fn random_batch(rng: &mut StdRng, model: &MemoryLog) -> LogBatch {
    let mut batch = LogBatch::new();
    let mut used = Vec::new();
    for _ in 0..rng.random_range(1..4) {
        let group = GroupId(rng.random_range(0..GROUPS));
        if used.contains(&group) {
            continue;
        }
        used.push(group);
        let view = model.group(group);
        match rng.random_range(0..20) {
            0..12 => {
                let entries = (0..rng.random_range(1..5)).map(|_| random_entry(rng)).collect();
                batch.append(group, view.next, entries);
            }
            12..15 => drop(batch.hard_state(group, random_entry(rng))),
            15 => drop(batch.truncate(group, rng.random_range(view.first..=view.next))),
            // Group 0 is slow: it keeps old segments in use.
            16..19 if group != GroupId(0) || rng.random_range(0..20) == 0 => {
                batch.compact(group, rng.random_range(view.first..=view.next + 1), random_entry(rng));
            }
            19 if rng.random_range(0..10) == 0 => drop(batch.remove(group)),
            _ => {}
        }
    }
    batch
}

fn random_entry(rng: &mut StdRng) -> Bytes {
    let len = if rng.random_range(0..10) == 0 { rng.random_range(0..3000) } else { rng.random_range(0..150) };
    // Runs of zeros are what a tear could be taken for.
    let byte = if rng.random() { 0 } else { rng.random() };
    Bytes::from(vec![byte; len])
}

struct Run {
    disk: SimDisk,
    rng: StdRng,
    /// What the log must hold: the batches that may be there, applied one after the other.
    model: MemoryLog,
    sectors: Sectors,
}

/// What the disk of a run is like, and what the log takes it for.
#[derive(Debug, Clone, Copy)]
struct Sectors {
    are_large: bool,
    block_alignment: u32,
}

impl Sectors {
    /// One or the other, by the seed, and the log aligns its blocks as it does by itself, or knows that it may do less.
    fn of(seed: u64) -> Self {
        match seed % 3 {
            0 => Self { are_large: false, block_alignment: 512 },
            large => Self { are_large: large == 1, block_alignment: 4096 },
        }
    }

    fn disk(self, seed: u64) -> SimDisk {
        if self.are_large { SimDisk::with_large_sectors(seed) } else { SimDisk::new(seed) }
    }

    /// Segments in which a few blocks fit.
    fn options(self) -> LogOptions {
        let segment_bytes = 32 * u64::from(self.block_alignment);
        LogOptions {
            segment_bytes,
            block_alignment: self.block_alignment,
            cache_bytes_max: 4 << 10,
            log_bytes_max: 5 * segment_bytes,
            ..LogOptions::default()
        }
    }
}

impl Run {
    fn open(&self) -> Result<SegmentLog> {
        let options = LogOptions {
            driver: Driver::Task { sync_delay: SyncDelay { min: Duration::ZERO, max: Duration::from_micros(50) } },
            ..self.sectors.options()
        };
        SegmentLog::open(Arc::new(self.disk.clone()), Path::new(DIR), options)
    }

    /// Opens the log after a crash, with more crashes while it is opened.
    fn open_with_crashes(&mut self, seed: u64) -> SegmentLog {
        let log = loop {
            if self.rng.random_range(0..4) == 0 {
                self.disk.power_off_after(self.rng.random_range(0..30));
            }
            match self.open() {
                Ok(log) => break log,
                Err(error) => {
                    assert!(format!("{error:?}").contains("no power"), "seed {seed}: {error:?}");
                    self.disk.crash();
                }
            }
        };
        self.disk.power_off_after(u64::MAX);
        log
    }

    /// Lives once, from opening to crashing; afterwards the model is what was found. A log that is handed over, and is
    /// handed on, has been opened after a crash and goes on with what opening has cleaned up, nobody having closed it.
    async fn live(&mut self, seed: u64, opened: Option<SegmentLog>) -> Option<SegmentLog> {
        let log = opened.unwrap_or_else(|| self.open_with_crashes(seed));
        let before = content(&log);
        assert!(before == content(&self.model), "seed {seed}: what was found once is found again");

        self.disk.power_off_after(self.rng.random_range(0..150));
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        // What the log looked like after each batch.
        let mut states = vec![before];
        for _ in 0..self.rng.random_range(1..120) {
            let batch = random_batch(&mut self.rng, &self.model);
            let number = states.len();
            let noted = Arc::clone(&acknowledged);
            let done = Box::new(move |result: Result<()>| {
                if result.is_ok() {
                    noted.lock().push(number);
                }
            });
            if log.submit(batch.clone(), done).is_err() {
                break;
            }
            self.model.submit(batch, Box::new(|_| {})).unwrap();
            states.push(content(&self.model));
            if self.rng.random_range(0..3) == 0 {
                mainstay_core::time::sleep(Duration::from_micros(self.rng.random_range(0..60))).await;
            }
        }
        self.disk.crash();
        drop(log);
        let acknowledged = acknowledged.lock().clone();
        assert!(acknowledged.iter().copied().eq(1..=acknowledged.len()), "seed {seed}: in order, each once");
        let acknowledged = acknowledged.len();

        let log = self.open_with_crashes(seed);
        let found = content(&log);
        let kept = states.iter().rposition(|state| *state == found);
        let kept = kept.unwrap_or_else(|| panic!("seed {seed}: what was found is no prefix"));
        assert!(kept >= acknowledged, "seed {seed}: {acknowledged} batches were acknowledged, {kept} are there");
        self.model = MemoryLog::new();
        for (group, (view, entries)) in found {
            let mut batch = LogBatch::new();
            if let Some(mark) = view.mark {
                batch.compact(group, view.first - 1, mark);
            }
            if let Some(state) = view.hard_state {
                batch.hard_state(group, state);
            }
            if view.first == view.next && log.group(group).mark.is_none() {
                // A group that has lost all of its entries is still there.
                batch.append(group, view.first, vec![Bytes::new()]).truncate(group, view.first);
            }
            batch.append(group, view.first, entries);
            self.model.submit(batch, Box::new(|_| {})).unwrap();
        }
        // Going on, closing cleanly or crashing at once must not make a difference to what was found.
        match self.rng.random_range(0..4) {
            0 => None,
            1 => {
                self.disk.crash();
                None
            }
            _ => Some(log),
        }
    }
}

#[test]
fn a_crash_loses_nothing_that_was_acknowledged() {
    for seed in 0..300 {
        run(seed, Sectors::of(seed));
    }
}

fn run(seed: u64, sectors: Sectors) {
    mainstay_core::random::seed_thread(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (disk, rng) = (sectors.disk(seed), StdRng::seed_from_u64(seed));
    let mut run = Run { disk, rng, model: MemoryLog::new(), sectors };
    runtime.block_on(async {
        let mut opened = None;
        for _ in 0..6 {
            opened = run.live(seed, opened).await;
        }
    });
}

/// What the alignment is for: a log whose blocks share the sectors of a disk loses what was acknowledged.
#[test]
fn blocks_that_share_a_sector_can_be_lost_with_their_neighbours() {
    let sectors = Sectors { are_large: true, block_alignment: 512 };
    let is_lost = |seed| std::panic::catch_unwind(|| run(seed, sectors)).is_err();
    assert!((0..50).any(is_lost), "the disk destroys nothing");
}

/// The same with the threads of the log, whose order nobody decides: less can be said of it, and it is what runs.
#[test]
fn a_crash_under_threads_loses_nothing_that_was_acknowledged() {
    const WRITERS: u64 = 3;
    for seed in 0..60 {
        let disk = Sectors::of(seed).disk(seed);
        let mut rng = StdRng::seed_from_u64(seed);
        let open = || SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), Sectors::of(seed).options());
        for _ in 0..3 {
            let log = open().unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
            disk.power_off_after(rng.random_range(10..250));
            let durable = thread::scope(|scope| {
                let log = &log;
                let run = |writer: u64| move || write_until_refused(log, GroupId(writer));
                let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(run(writer))).collect();
                writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
            });
            disk.crash();
            drop(log);
            let log = open().unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
            for (writer, (first, next)) in (0..WRITERS).zip(durable) {
                let view = log.group(GroupId(writer));
                assert!(
                    view.first >= first && view.next >= next,
                    "seed {seed}: {view:?}, {first} and {next} were durable"
                );
                expect(&log, GroupId(writer), view.first..view.next);
                // A mark, a hard state and an entry are one batch.
                let state = view.hard_state.map_or(0, |state| String::from_utf8_lossy(&state).parse::<u64>().unwrap());
                assert_eq!(state, view.next, "seed {seed}");
            }
        }
    }
}

/// Appends to a group, and compacts it, until the log refuses; returns its first and next index as they were durable.
fn write_until_refused(log: &SegmentLog, group: GroupId) -> (u64, u64) {
    let view = log.group(group);
    let (mut first, mut next) = (view.first, view.next.max(1));
    loop {
        let written = write(log, |batch| {
            batch.append(group, next, vec![entry(next)]).hard_state(group, format!("{}", next + 1).into());
            if next % 20 == 0 {
                batch.compact(group, next - 5, "mark".into());
            }
        });
        if written.is_err() {
            return (first, if next == 1 { 0 } else { next });
        }
        if next % 20 == 0 {
            first = next - 4;
        }
        next += 1;
    }
}
