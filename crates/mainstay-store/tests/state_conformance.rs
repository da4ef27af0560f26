//! Every state store passes the one suite.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay_store::disk::sim::SimDisk;
use mainstay_store::disk::{Disk, RealDisk};
use mainstay_store::state::conformance::{OwnedWrite, Step, Subject, check, check_steps, random_steps};
use mainstay_store::state::{DiskStore, DiskStoreOptions, FaultyStore, KeyRange, MemoryStore, Order, StateStore};
use proptest::prelude::*;

struct Memory;

impl Subject for Memory {
    fn create(&mut self) -> Arc<dyn StateStore> {
        Arc::new(MemoryStore::new())
    }
}

/// A disk store; each new one has a file of its own.
struct OnDisk {
    disk: Arc<dyn Disk>,
    /// Crashed between closing and opening, if simulated.
    simulated: Option<SimDisk>,
    folder: PathBuf,
    files: u32,
    wrapped: bool,
}

impl OnDisk {
    fn real(folder: &Path) -> Self {
        Self { disk: Arc::new(RealDisk), simulated: None, folder: folder.to_path_buf(), files: 0, wrapped: false }
    }

    fn simulated(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        Self { disk: Arc::new(disk.clone()), simulated: Some(disk), folder: "/data".into(), files: 0, wrapped: false }
    }

    fn open(&self) -> Arc<dyn StateStore> {
        let path = self.folder.join(format!("{}.state", self.files));
        let options = DiskStoreOptions { cache_bytes_max: 1 << 20, ..DiskStoreOptions::default() };
        let store = Arc::new(DiskStore::open(self.disk.clone(), &path, options).unwrap());
        if self.wrapped { Arc::new(FaultyStore::new(store)) } else { store }
    }
}

impl Subject for OnDisk {
    fn create(&mut self) -> Arc<dyn StateStore> {
        self.files += 1;
        self.open()
    }

    fn reopen(&mut self, store: Arc<dyn StateStore>) -> Option<Arc<dyn StateStore>> {
        assert_eq!(Arc::strong_count(&store), 1);
        drop(store);
        if let Some(disk) = &self.simulated {
            disk.crash();
        }
        Some(self.open())
    }

    fn is_durable(&self) -> bool {
        true
    }
}

#[test]
fn memory_conforms() {
    check(&mut Memory);
    for seed in 0..300 {
        check_steps(&mut Memory, &random_steps(seed, 60));
    }
}

#[test]
fn disk_on_the_real_disk_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let mut subject = OnDisk::real(folder.path());
    check(&mut subject);
    for seed in 0..5 {
        check_steps(&mut subject, &random_steps(seed, 60));
    }
}

#[test]
fn disk_on_the_simulated_disk_conforms() {
    check(&mut OnDisk::simulated(1));
    for seed in 0..60 {
        check_steps(&mut OnDisk::simulated(seed), &random_steps(seed, 60));
    }
}

#[test]
fn faulty_without_faults_conforms() {
    let mut subject = OnDisk { wrapped: true, ..OnDisk::simulated(2) };
    check(&mut subject);
    for seed in 100..120 {
        check_steps(&mut subject, &random_steps(seed, 60));
    }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(0xff)], 0..4)
}

fn write() -> impl Strategy<Value = OwnedWrite> {
    prop_oneof![
        5 => (key(), proptest::collection::vec(any::<u8>(), 0..9)).prop_map(|(key, value)| OwnedWrite::Put(key, value)),
        2 => key().prop_map(OwnedWrite::Delete),
        2 => (key(), proptest::option::weighted(0.8, key())).prop_map(|(start, end)| OwnedWrite::DeleteRange(start, end)),
        3 => ((0..3_u8), -3..4_i64).prop_map(|(key, delta)| OwnedWrite::Add(vec![b'b', key], delta)),
        1 => (key(), any::<i64>()).prop_map(|(key, delta)| OwnedWrite::Add(key, delta)),
        1 => (key(), any::<u64>(), key()).prop_map(|(start, stamp, end)| OwnedWrite::PutStamped(start, stamp, end, vec![1; 8])),
        1 => key().prop_map(OwnedWrite::Note),
    ]
}

fn bound() -> impl Strategy<Value = Bound<bytes::Bytes>> {
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(|key| Bound::Included(key.into())),
        key().prop_map(|key| Bound::Excluded(key.into())),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let order = prop_oneof![Just(Order::Ascending), Just(Order::Descending)];
    prop_oneof![
        8 => proptest::collection::vec(write(), 0..6).prop_map(Step::Apply),
        2 => key().prop_map(Step::Get),
        1 => proptest::collection::vec(key(), 0..4).prop_map(Step::MultiGet),
        4 => (bound(), bound(), order, 0..30_usize)
            .prop_map(|(start, end, order, count)| Step::Scan(KeyRange { start, end }, order, count)),
        1 => Just(Step::Counts),
        2 => Just(Step::Hold),
        1 => Just(Step::CheckHeld),
        1 => Just(Step::Release),
        2 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
        1 => Just(Step::Move),
        1 => Just(Step::Restore),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_on_memory(steps in proptest::collection::vec(step(), 0..40)) {
        check_steps(&mut Memory, &steps);
    }

    #[test]
    fn any_steps_on_disk(steps in proptest::collection::vec(step(), 0..40)) {
        check_steps(&mut OnDisk::simulated(5), &steps);
    }
}
