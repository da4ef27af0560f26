//! Writers that block their threads, on real ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use mainstay::Result;
use parking_lot::Mutex;

use super::*;
use crate::batch::{BatchExecutor, BatchSettings, RetryPolicy, in_place};

/// Blocks the thread with the first batch until it is let go, and then says that it was written.
struct Blocking {
    gate: Mutex<mpsc::Receiver<()>>,
    begun: Mutex<Vec<Vec<u32>>>,
    ended: AtomicUsize,
}

impl Blocking {
    fn new() -> (Arc<Self>, mpsc::Sender<()>) {
        let (release, gate) = mpsc::channel();
        (Arc::new(Self { gate: Mutex::new(gate), begun: Mutex::default(), ended: AtomicUsize::new(0) }), release)
    }

    fn begun(&self) -> Vec<Vec<u32>> {
        self.begun.lock().clone()
    }
}

impl BatchWriter<u32> for Blocking {
    async fn write(&self, items: &[u32]) -> Result<Vec<()>> {
        self.begun.lock().push(items.to_vec());
        if items.contains(&1) {
            assert!(in_place::may_block());
            in_place::block(|| {
                self.gate.lock().recv().unwrap();
                Ok(())
            })?;
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
        Ok(vec![(); items.len()])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_callers_of_a_writer_that_blocks_its_thread_are_answered_and_others_go_on() {
    let again = RetryPolicy { retries: |_| true, ..RetryPolicy::attempts(2) };
    for retry in [RetryPolicy::default(), again] {
        let (writer, release) = Blocking::new();
        let write_time_max = Duration::from_millis(10);
        let settings = BatchSettings { write_time_max, retry, items_max: 1, ..BatchSettings::default() };
        let batch = BatchExecutor::start("blocking", writer.clone(), settings).unwrap();
        let (stuck, next) = (batch.try_submit(1).unwrap(), batch.try_submit(2).unwrap());
        let error = stuck.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        assert!(error.to_string().contains("write_time_max of 10ms, blocks its thread"), "{error}");
        next.await.unwrap();

        // The one that comes back changes nothing, and leaves the work to who has taken its place.
        release.send(()).unwrap();
        while writer.ended.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        batch.submit(3).await.unwrap();
        batch.close().await;
        assert_eq!(writer.begun(), [[1], [2], [3]]);
        let stats = batch.stats();
        assert_eq!((stats.items_written, stats.items_failed, stats.batches), (2, 1, 3));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_left_to_watch_when_the_executor_is_gone() {
    let (writer, _release) = Blocking::new();
    let batch = BatchExecutor::start("short", writer, BatchSettings::default()).unwrap();
    batch.submit(2).await.unwrap();
    drop(batch);
    // Neither a lane nor the watchdog, which would have five minutes to go.
    while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
}

/// Says where it may block.
struct Asking;

impl BatchWriter<(), bool> for Asking {
    async fn write(&self, items: &[()]) -> Result<Vec<bool>> {
        let elsewhere = tokio::spawn(async { in_place::may_block() }).await.unwrap();
        assert!(!elsewhere, "who looks after the lane does not look after other tasks");
        Ok(vec![in_place::may_block(); items.len()])
    }
}

async fn may_block_in_a_lane() -> bool {
    assert!(!in_place::may_block(), "nobody looks after a task that is no lane");
    let batch = BatchExecutor::start("asking", Asking, BatchSettings::default()).unwrap();
    batch.submit(()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_may_block_where_there_are_other_threads() {
    assert!(may_block_in_a_lane().await);
}

#[tokio::test]
async fn a_lane_may_not_block_the_only_thread() {
    assert!(!may_block_in_a_lane().await);
}
