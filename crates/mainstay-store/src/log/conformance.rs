//! What every [`NodeLog`] must do, as checks to run on one.
//!
//! [`check`] runs on anything; [`check_durable`] also closes and reopens the log between the steps, so everything is
//! seen twice: as it is in memory, and as it is found again.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc, reason = "a check fails by panicking")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use mainstay_core::{ErrorKind, Result};
use parking_lot::{Condvar, Mutex};

use super::{Done, GroupId, GroupView, LogBatch, NodeLog, Refused};

const A: GroupId = GroupId(1);
const B: GroupId = GroupId(u64::MAX);

/// Checks a log that keeps nothing when it is closed. `open` gives a new empty log each time.
pub fn check<L: NodeLog>(open: &dyn Fn() -> L) {
    for step in STEPS {
        step(&Plain(open()), &mut || {});
    }
}

/// Checks a log that keeps what it is given. `folder` stands for a new empty place each time, and opens the log in
/// it as often as it is called.
pub fn check_durable<L: NodeLog>(folder: &dyn Fn() -> Box<dyn Fn() -> L>) {
    for step in STEPS {
        let open = folder();
        step(&Plain(open()), &mut || {});
        // The same steps on a log that is closed and opened whenever a step allows for it.
        let open = folder();
        let log = Reopened { log: Mutex::new(Some(open())), open };
        step(&log, &mut || log.reopen());
    }
    survives_closing(&folder());
}

type Step = fn(&dyn Log, &mut dyn FnMut());

const STEPS: [Step; 12] = [
    empty,
    appending,
    refusing,
    giving_back,
    hard_states,
    truncating,
    compacting,
    removing,
    several_groups_in_one_batch,
    reading_within_limits,
    order_of_callbacks,
    callbacks_that_panic,
];

fn empty(log: &dyn Log, reopen: &mut dyn FnMut()) {
    for _ in 0..2 {
        assert_eq!(log.group(A), GroupView::default());
        assert!(log.groups().is_empty());
        assert!(log.read(A, 0..100, 100).unwrap().is_empty());
        assert!(log.lengths(A, 0..100).unwrap().is_empty());
        write(log, |_| {}).unwrap();
        assert!(log.groups().is_empty(), "an empty batch writes no group");
        write(log, |batch| _ = batch.append(A, 5, Vec::new()).truncate(A, 9).remove(B)).unwrap();
        assert!(log.groups().is_empty(), "dropping what is not there writes no group");
        reopen();
    }
}

fn appending(log: &dyn Log, reopen: &mut dyn FnMut()) {
    write(log, |batch| _ = batch.append(A, 7, entries(7..10))).unwrap();
    reopen();
    write(log, |batch| _ = batch.append(A, 10, entries(10..11)).append(A, 11, entries(11..13))).unwrap();
    for _ in 0..2 {
        let view = log.group(A);
        assert_eq!((view.first, view.next, view.hard_state, view.mark), (7, 13, None, None));
        assert_eq!(log.groups(), [A]);
        expect(log, A, 7..13);
        reopen();
    }
}

fn refusing(log: &dyn Log, reopen: &mut dyn FnMut()) {
    write(log, |batch| _ = batch.append(A, 1, entries(1..4))).unwrap();
    reopen();
    let invalid = |fill: &dyn Fn(&mut LogBatch)| {
        assert_eq!(write(log, fill).unwrap_err().kind(), ErrorKind::Invalid);
    };
    invalid(&|batch| _ = batch.append(A, 5, entries(5..6)));
    invalid(&|batch| _ = batch.append(A, 3, entries(3..4)));
    invalid(&|batch| _ = batch.append(A, 4, entries(4..5)).append(A, 4, entries(4..5)));
    invalid(&|batch| _ = batch.append(B, u64::MAX, entries(0..1)));
    invalid(&|batch| _ = batch.append(B, u64::MAX - 1, entries(0..2)));
    invalid(&|batch| _ = batch.truncate(A, 0));
    invalid(&|batch| _ = batch.compact(A, u64::MAX, Bytes::new()));
    // The whole batch is refused for its last write.
    invalid(&|batch| _ = batch.hard_state(A, "no".into()).append(B, 1, entries(1..2)).append(A, 9, entries(9..10)));
    for _ in 0..2 {
        assert_eq!(log.groups(), [A]);
        assert_eq!(log.group(A).hard_state, None);
        expect(log, A, 1..4);
        reopen();
    }
}

/// A batch that comes too early is given back, and can be submitted as it is once its time has come.
fn giving_back(log: &dyn Log, reopen: &mut dyn FnMut()) {
    write(log, |batch| _ = batch.append(A, 0, entries(0..1))).unwrap();
    let mut batch = LogBatch::new();
    batch.append(A, 3, entries(3..5));
    let (sender, called) = mpsc::sync_channel(1);
    let refused = log.submit(batch, Box::new(move |result| drop(sender.send(result)))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(called.try_recv().is_err(), "a batch that was refused has no outcome");
    write(log, |batch| _ = batch.append(A, 1, entries(1..3))).unwrap();
    let Refused { batch, done, .. } = *refused;
    log.submit(batch, done).unwrap();
    called.recv().unwrap().unwrap();
    expect(log, A, 0..5);
    reopen();
    expect(log, A, 0..5);
}

fn hard_states(log: &dyn Log, reopen: &mut dyn FnMut()) {
    write(log, |batch| _ = batch.hard_state(A, "one".into())).unwrap();
    write(log, |batch| _ = batch.hard_state(A, "two".into()).hard_state(A, "three".into())).unwrap();
    write(log, |batch| _ = batch.hard_state(B, Bytes::new())).unwrap();
    for _ in 0..2 {
        assert_eq!(log.group(A).hard_state.unwrap(), "three");
        assert_eq!(log.group(B).hard_state.unwrap(), "");
        assert_eq!(log.groups(), [A, B]);
        reopen();
    }
}

fn truncating(log: &dyn Log, reopen: &mut dyn FnMut()) {
    write(log, |batch| _ = batch.append(A, 1, entries(1..10))).unwrap();
    write(log, |batch| _ = batch.truncate(A, 10)).unwrap();
    assert_eq!(log.group(A).next, 10, "nothing is there to be dropped");
    write(log, |batch| _ = batch.truncate(A, 6).append(A, 6, vec!["other".into()])).unwrap();
    for _ in 0..2 {
        assert_eq!(log.group(A).next, 7);
        expect(log, A, 1..6);
        assert_eq!(log.read(A, 6..100, usize::MAX).unwrap(), ["other"]);
        reopen();
    }
    write(log, |batch| _ = batch.truncate(A, 1)).unwrap();
    reopen();
    assert_eq!((log.group(A).first, log.group(A).next), (1, 1));
    write(log, |batch| _ = batch.append(A, 20, entries(20..22))).unwrap();
    reopen();
    assert_eq!(log.group(A).first, 20, "a group without entries may start anywhere");
    expect(log, A, 20..22);
}

fn compacting(log: &dyn Log, reopen: &mut dyn FnMut()) {
    write(log, |batch| _ = batch.append(A, 1, entries(1..10)).compact(A, 4, "four".into())).unwrap();
    for _ in 0..2 {
        let view = log.group(A);
        assert_eq!((view.first, view.next, view.mark.unwrap()), (5, 10, Bytes::from("four")));
        expect(log, A, 5..10);
        let error = log.read(A, 4..10, usize::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(log.lengths(A, 4..10).unwrap_err().kind(), ErrorKind::NotFound);
        reopen();
    }
    assert_eq!(write(log, |batch| _ = batch.compact(A, 3, "back".into())).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(write(log, |batch| _ = batch.truncate(A, 4)).unwrap_err().kind(), ErrorKind::Invalid);
    write(log, |batch| _ = batch.compact(A, 4, "again".into())).unwrap();
    assert_eq!(log.group(A).mark.unwrap(), "again");
    write(log, |batch| _ = batch.truncate(A, 5)).unwrap();
    reopen();
    assert!(write(log, |batch| _ = batch.append(A, 6, entries(6..7))).is_err(), "a compacted group has a next index");
    write(log, |batch| _ = batch.append(A, 5, entries(5..6))).unwrap();
    // Beyond the last: that is what taking over a snapshot does.
    write(log, |batch| _ = batch.compact(A, 99, "ninety-nine".into())).unwrap();
    for _ in 0..2 {
        assert_eq!((log.group(A).first, log.group(A).next), (100, 100));
        assert!(log.read(A, 100..200, usize::MAX).unwrap().is_empty());
        reopen();
    }
    assert!(write(log, |batch| _ = batch.append(A, 101, entries(101..102))).is_err());
    write(log, |batch| _ = batch.append(A, 100, entries(100..103)).compact(B, 7, "b".into())).unwrap();
    reopen();
    expect(log, A, 100..103);
    assert_eq!((log.group(B).first, log.group(B).next), (8, 8));
}

fn removing(log: &dyn Log, reopen: &mut dyn FnMut()) {
    write(log, |batch| _ = batch.append(A, 3, entries(3..6)).hard_state(A, "a".into())).unwrap();
    write(log, |batch| _ = batch.append(B, 1, entries(1..2)).compact(A, 4, "four".into())).unwrap();
    write(log, |batch| _ = batch.remove(A)).unwrap();
    for _ in 0..2 {
        assert_eq!(log.groups(), [B]);
        assert_eq!(log.group(A), GroupView::default());
        expect(log, B, 1..2);
        reopen();
    }
    write(log, |batch| _ = batch.append(A, 1, entries(1..3)).remove(A).append(A, 8, entries(8..9))).unwrap();
    reopen();
    assert_eq!(log.group(A).first, 8);
    expect(log, A, 8..9);
}

fn several_groups_in_one_batch(log: &dyn Log, reopen: &mut dyn FnMut()) {
    for round in 0..50 {
        write(log, |batch| {
            for group in 1..=20 {
                batch.append(GroupId(group), round * 2, entries(round * 2..round * 2 + 2));
                batch.hard_state(GroupId(group), format!("{round}").into());
            }
        })
        .unwrap();
    }
    for _ in 0..2 {
        assert_eq!(log.groups(), (1..=20).map(GroupId).collect::<Vec<_>>());
        for group in 1..=20 {
            expect(log, GroupId(group), 0..100);
            assert_eq!(log.group(GroupId(group)).hard_state.unwrap(), "49");
        }
        reopen();
    }
}

fn reading_within_limits(log: &dyn Log, reopen: &mut dyn FnMut()) {
    let sizes = [0usize, 10, 100_000, 0, 600, 513, 1];
    let bytes: Vec<Bytes> = sizes.iter().zip(0u8..).map(|(size, byte)| Bytes::from(vec![byte; *size])).collect();
    write(log, |batch| _ = batch.append(A, 1, bytes.clone())).unwrap();
    for _ in 0..2 {
        assert_eq!(log.read(A, 1..8, usize::MAX).unwrap(), bytes);
        assert_eq!(log.read(A, 1..8, 10).unwrap(), bytes[..2]);
        assert_eq!(log.read(A, 1..8, 100_009).unwrap(), bytes[..2]);
        assert_eq!(log.read(A, 1..8, 100_010).unwrap(), bytes[..4]);
        assert_eq!(log.read(A, 3..8, 1).unwrap(), bytes[2..3], "at least one");
        assert_eq!(log.read(A, 2..5, usize::MAX).unwrap(), bytes[1..4]);
        assert_eq!(log.read(A, 7..u64::MAX, usize::MAX).unwrap(), bytes[6..]);
        assert!(log.read(A, 8..9, usize::MAX).unwrap().is_empty());
        assert!(log.read(A, 3..3, usize::MAX).unwrap().is_empty());
        let lengths = sizes.map(|size| size as u64);
        assert_eq!(log.lengths(A, 1..u64::MAX).unwrap(), lengths);
        assert_eq!(log.lengths(A, 2..5).unwrap(), lengths[1..4]);
        assert!(log.lengths(A, 8..9).unwrap().is_empty());
        #[allow(clippy::reversed_empty_ranges, reason = "what is checked")]
        let reversed = 5..2;
        assert!(log.read(A, reversed, usize::MAX).unwrap().is_empty());
        reopen();
    }
}

fn order_of_callbacks(log: &dyn Log, _: &mut dyn FnMut()) {
    const BATCHES: u64 = 500;
    let called = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    for index in 0..BATCHES {
        let mut batch = LogBatch::new();
        batch.append(A, index, entries(index..index + 1));
        let called = Arc::clone(&called);
        let done = Box::new(move |result: Result<()>| {
            called.0.lock().push(result.map(|()| index));
            called.1.notify_all();
        });
        log.submit(batch, done).unwrap();
        // What was accepted is visible at once.
        assert_eq!(log.group(A).next, index + 1);
        assert_eq!(log.read(A, index..index + 1, 0).unwrap(), entries(index..index + 1));
    }
    let mut order = called.0.lock();
    while order.len() < BATCHES as usize {
        called.1.wait(&mut order);
    }
    let order: Vec<u64> = order.drain(..).map(|result| result.unwrap()).collect();
    assert!(order.into_iter().eq(0..BATCHES), "callbacks come in order, each once");
}

fn callbacks_that_panic(log: &dyn Log, reopen: &mut dyn FnMut()) {
    for index in 1..4 {
        let mut batch = LogBatch::new();
        batch.append(A, index * 2, entries(index * 2..index * 2 + 1));
        log.submit(batch, Box::new(|_| panic!("on purpose: whoever waits for others must still be called"))).unwrap();
        // Who comes afterwards is called, and would wait for ever here if not.
        write(log, |batch| _ = batch.append(A, index * 2 + 1, entries(index * 2 + 1..index * 2 + 2))).unwrap();
        reopen();
    }
    expect(log, A, 2..8);
}

fn survives_closing<L: NodeLog>(open: &dyn Fn() -> L) {
    let durable = Arc::new(AtomicU64::new(0));
    // Nobody waits for these: closing does.
    {
        let log = open();
        for index in 0..1000 {
            let mut batch = LogBatch::new();
            batch.append(A, index, entries(index..index + 1)).hard_state(A, format!("{index}").into());
            let durable = Arc::clone(&durable);
            log.submit(
                batch,
                Box::new(move |result| _ = durable.fetch_add(u64::from(result.is_ok()), Ordering::Relaxed)),
            )
            .unwrap();
        }
    }
    assert_eq!(durable.load(Ordering::Relaxed), 1000, "closing calls everybody");
    let log = Plain(open());
    expect(&log, A, 0..1000);
    assert_eq!(log.group(A).hard_state.unwrap(), "999");
}

/// Submits a batch and waits until it is durable.
fn write(log: &dyn Log, fill: impl Fn(&mut LogBatch)) -> Result<()> {
    let mut batch = LogBatch::new();
    fill(&mut batch);
    let slot = Arc::new((Mutex::new(None), Condvar::new()));
    let filled = Arc::clone(&slot);
    let done = Box::new(move |result| {
        *filled.0.lock() = Some(result);
        filled.1.notify_all();
    });
    log.submit(batch, done)?;
    let mut result = slot.0.lock();
    loop {
        if let Some(result) = result.take() {
            return result;
        }
        slot.1.wait(&mut result);
    }
}

/// Entries whose bytes and lengths follow from their index.
fn entries(indexes: Range<u64>) -> Vec<Bytes> {
    indexes.map(|index| Bytes::from(format!("entry {index} {}", "-".repeat(index as usize % 50)))).collect()
}

fn expect(log: &dyn Log, group: GroupId, range: Range<u64>) {
    let found = log.read(group, range.clone(), usize::MAX).unwrap();
    assert!(found == entries(range), "the entries of a group are not what was written");
}

/// A log that is closed and opened on request.
struct Reopened<L> {
    log: Mutex<Option<L>>,
    open: Box<dyn Fn() -> L>,
}

impl<L: NodeLog> Reopened<L> {
    fn reopen(&self) {
        let mut log = self.log.lock();
        *log = None;
        *log = Some((self.open)());
    }

    fn with<T>(&self, run: impl FnOnce(&L) -> T) -> T {
        run(self.log.lock().as_ref().unwrap())
    }
}

/// What the steps see of a log, reopened or not.
trait Log {
    fn submit(&self, batch: LogBatch, done: Done) -> Result<(), Box<Refused>>;
    fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>>;
    fn lengths(&self, group: GroupId, range: Range<u64>) -> Result<Vec<u64>>;
    fn group(&self, group: GroupId) -> GroupView;
    fn groups(&self) -> Vec<GroupId>;
}

struct Plain<L>(L);

impl<L: NodeLog> Log for Plain<L> {
    fn submit(&self, batch: LogBatch, done: Done) -> Result<(), Box<Refused>> {
        self.0.submit(batch, done)
    }

    fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>> {
        self.0.read(group, range, bytes_max)
    }

    fn lengths(&self, group: GroupId, range: Range<u64>) -> Result<Vec<u64>> {
        self.0.lengths(group, range)
    }

    fn group(&self, group: GroupId) -> GroupView {
        self.0.group(group)
    }

    fn groups(&self) -> Vec<GroupId> {
        self.0.groups()
    }
}

impl<L: NodeLog> Log for Reopened<L> {
    fn submit(&self, batch: LogBatch, done: Done) -> Result<(), Box<Refused>> {
        self.with(|log| log.submit(batch, done))
    }

    fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>> {
        self.with(|log| log.read(group, range, bytes_max))
    }

    fn lengths(&self, group: GroupId, range: Range<u64>) -> Result<Vec<u64>> {
        self.with(|log| log.lengths(group, range))
    }

    fn group(&self, group: GroupId) -> GroupView {
        self.with(|log| log.group(group))
    }

    fn groups(&self) -> Vec<GroupId> {
        self.with(L::groups)
    }
}
