//! The executor, in virtual time, with a writer that the test holds and lets go.

use std::sync::Arc;
use std::time::Duration;

use mainstay::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;

mod crowds;

/// Writes numbers and answers with their doubles. Remembers the batches; each may need a permit of the test.
struct Doubler {
    batches: Mutex<Vec<Vec<u32>>>,
    permits: Semaphore,
    /// What becomes of a batch.
    verdict: Box<Verdict>,
}

type Verdict = dyn Fn(&[u32]) -> Result<()> + Send + Sync;

impl Doubler {
    /// Writes at once.
    fn free() -> Arc<Self> {
        Self::new(Semaphore::MAX_PERMITS, |_| Ok(()))
    }

    /// Writes as many batches as it has permits.
    fn held() -> Arc<Self> {
        Self::new(0, |_| Ok(()))
    }

    fn new(permits: usize, verdict: impl Fn(&[u32]) -> Result<()> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { batches: Mutex::default(), permits: Semaphore::new(permits), verdict: Box::new(verdict) })
    }

    fn release(&self, batches: usize) {
        self.permits.add_permits(batches);
    }

    fn batches(&self) -> Vec<Vec<u32>> {
        self.batches.lock().clone()
    }

    /// How many items each batch had.
    fn sizes(&self) -> Vec<usize> {
        self.batches.lock().iter().map(Vec::len).collect()
    }
}

impl BatchWriter<u32, u64> for Doubler {
    async fn write(&self, items: &[u32]) -> Result<Vec<u64>> {
        self.batches.lock().push(items.to_vec());
        self.permits.acquire().await.unwrap().forget();
        (self.verdict)(items)?;
        Ok(items.iter().map(|item| u64::from(*item) * 2).collect())
    }
}

fn start(writer: &Arc<Doubler>, change: impl FnOnce(&mut BatchSettings)) -> BatchExecutor<u32, u64> {
    let mut settings = BatchSettings::default();
    change(&mut settings);
    BatchExecutor::start("test", writer.clone(), settings).unwrap()
}

type Call = JoinHandle<Result<u64>>;

/// Submits items from a caller each, in this order, and lets everything run that can.
async fn submit(batch: &BatchExecutor<u32, u64>, items: impl IntoIterator<Item = u32>) -> Vec<Call> {
    let mut calls = Vec::new();
    for item in items {
        let batch = batch.clone();
        calls.push(tokio::spawn(async move { batch.submit(item).await }));
    }
    settle().await;
    calls
}

/// Lets everything run that can, without time passing by more than the clock's grain.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn outcomes(calls: Vec<Call>) -> Vec<Result<u64, ErrorKind>> {
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await.unwrap().map_err(|error| error.kind()));
    }
    outcomes
}

fn doubles(items: impl IntoIterator<Item = u32>) -> Vec<Result<u64, ErrorKind>> {
    items.into_iter().map(|item| Ok(u64::from(item) * 2)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_gathers_while_a_batch_is_written_is_the_next_one() {
    let writer = Doubler::held();
    let batch = start(&writer, |_| {});
    let first = submit(&batch, [0]).await;
    let second = submit(&batch, 1..6).await;
    assert_eq!(writer.batches(), [vec![0]], "who is alone waits for nobody");
    writer.release(1);
    assert_eq!(outcomes(first).await, doubles([0]));
    settle().await;
    assert_eq!(writer.batches(), [vec![0], vec![1, 2, 3, 4, 5]]);
    assert!(second.iter().all(|call| !call.is_finished()), "their batch is not written yet");
    writer.release(1);
    assert_eq!(outcomes(second).await, doubles(1..6));
    let stats = batch.stats();
    assert_eq!((stats.batches, stats.items_written, stats.items_failed, stats.items_waiting), (2, 6, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_full_by_count() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| {
        settings.items_max = 3;
        settings.linger = Duration::from_secs(60);
    });
    let calls = submit(&batch, 0..7).await;
    writer.release(2);
    settle().await;
    assert_eq!(writer.batches(), [vec![0, 1, 2], vec![3, 4, 5]], "and the last waits for others");
    assert_eq!(calls.iter().filter(|call| call.is_finished()).count(), 6);
    writer.release(1);
    assert_eq!(outcomes(calls).await, doubles(0..7));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_full_by_bytes_and_a_large_item_has_one_to_itself() {
    let writer = Doubler::free();
    let settings = BatchSettings { bytes_max: Some(10), linger: Duration::from_secs(60), ..BatchSettings::default() };
    let batch = BatchExecutor::start_sized("test", writer.clone(), settings, |item| *item as usize).unwrap();
    let calls = submit(&batch, [4, 4, 4, 99, 1, 9, 5]).await;
    assert_eq!(writer.batches(), [vec![4, 4], vec![4], vec![99], vec![1, 9]]);
    batch.flush().await;
    assert_eq!(outcomes(calls).await, doubles([4, 4, 4, 99, 1, 9, 5]));
}

#[tokio::test(start_paused = true)]
async fn bytes_cannot_be_limited_without_a_size() {
    let settings = BatchSettings { bytes_max: Some(10), ..BatchSettings::default() };
    let error = BatchExecutor::start("test", Doubler::free(), settings).unwrap_err();
    assert!(error.to_string().contains("start_sized"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_first_item_of_a_batch_lingers_and_not_the_last() {
    let writer = Doubler::free();
    let batch = start(&writer, |settings| settings.linger = Duration::from_secs(10));
    let started = tokio::time::Instant::now();
    let mut calls = submit(&batch, [1]).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    calls.extend(submit(&batch, [2]).await);
    assert_eq!(outcomes(calls).await, doubles([1, 2]));
    assert_eq!(started.elapsed().as_secs(), 10);
    assert_eq!(writer.batches(), [vec![1, 2]]);
    assert_eq!(batch.submit(3).await.unwrap(), 6);
    assert_eq!(started.elapsed().as_secs(), 20, "the next one has its own time");
}

#[tokio::test(start_paused = true)]
async fn a_flush_writes_what_is_there_and_returns_when_it_is_written() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| settings.linger = Duration::from_secs(60));
    batch.flush().await;
    let calls = submit(&batch, [1, 2]).await;
    let flushing = tokio::spawn({
        let batch = batch.clone();
        async move { batch.flush().await }
    });
    settle().await;
    assert!(!flushing.is_finished());
    let later = submit(&batch, [3]).await;
    writer.release(1);
    flushing.await.unwrap();
    assert!(calls.iter().all(JoinHandle::is_finished));
    assert!(!later[0].is_finished(), "what came later lingers");
    assert_eq!(writer.batches(), [vec![1, 2]]);
}

#[tokio::test(start_paused = true)]
async fn closing_writes_what_is_there_and_takes_nothing_more() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| {
        settings.linger = Duration::from_secs(60);
        settings.items_max = 2;
    });
    let calls = submit(&batch, 0..5).await;
    let closing = tokio::spawn({
        let batch = batch.clone();
        async move { batch.close().await }
    });
    settle().await;
    let refused = batch.submit(9).await.unwrap_err();
    assert!(refused.to_string().contains("\"test\" is closed"), "{refused}");
    assert_eq!(batch.try_submit(9).err().unwrap().kind(), ErrorKind::Fatal);
    assert!(!closing.is_finished());
    writer.release(3);
    closing.await.unwrap();
    assert_eq!(outcomes(calls).await, doubles(0..5));
    batch.close().await;
}

#[tokio::test(start_paused = true)]
async fn dropping_fails_what_waits_and_ends_what_has_begun() {
    let writer = Doubler::held();
    let batch = start(&writer, |_| {});
    let begun = batch.try_submit(1).unwrap();
    settle().await;
    let waiting = batch.try_submit(2).unwrap();
    drop(batch);
    let error = waiting.await.unwrap_err();
    assert!(error.to_string().contains("was dropped before the item was written"), "{error}");
    writer.release(1);
    assert_eq!(begun.await.unwrap(), 2);
    assert_eq!(writer.batches(), [vec![1]]);
}

#[test]
fn nobody_hangs_when_the_runtime_of_the_executor_ends() {
    let (outer, inner) = (runtime(), runtime());
    let writer = Doubler::held();
    let batch = inner.block_on(async { start(&writer, |_| {}) });
    let (begun, waiting) = inner.block_on(async {
        let begun = batch.try_submit(1).unwrap();
        tokio::task::yield_now().await;
        (begun, batch.try_submit(2).unwrap())
    });
    assert_eq!(writer.batches(), [vec![1]]);
    drop(inner);
    outer.block_on(async {
        assert_eq!(begun.await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::Fatal);
        assert_eq!(batch.submit(3).await.unwrap_err().kind(), ErrorKind::Fatal);
        batch.close().await;
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn callers_wait_while_there_is_no_room_and_can_be_refused_instead() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| {
        settings.items_max = 2;
        settings.waiting_items_max = 3;
    });
    let mut calls = submit(&batch, [0]).await;
    calls.extend(submit(&batch, 1..7).await);
    assert_eq!(batch.stats().items_waiting, 3);
    let error = batch.try_submit(99).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert!(error.to_string().starts_with("3 items wait for the batch executor \"test\" already"), "{error}");
    for _ in 0..8 {
        writer.release(1);
        settle().await;
        assert!(batch.stats().items_waiting <= 3);
    }
    assert_eq!(outcomes(calls).await, doubles(0..7));
    assert_eq!(writer.batches().concat(), (0..7).collect::<Vec<_>>(), "in the order in which they came");
}

#[tokio::test(start_paused = true)]
async fn room_is_counted_in_bytes_too() {
    let writer = Doubler::held();
    let settings = BatchSettings { waiting_bytes_max: Some(10), ..BatchSettings::default() };
    let batch = BatchExecutor::start_sized("test", writer.clone(), settings, |item| *item as usize).unwrap();
    let mut calls = submit(&batch, [1]).await;
    calls.extend(submit(&batch, [6, 5]).await);
    assert_eq!(batch.stats().items_waiting, 1, "the second has no room");
    assert_eq!(batch.try_submit(1).err().unwrap().kind(), ErrorKind::Overloaded);
    assert_eq!(batch.submit(11).await.unwrap_err().kind(), ErrorKind::TooLarge);
    // One that goes away while it waits for room leaves none of its own behind.
    let gone = submit(&batch, [7]).await;
    gone[0].abort();
    writer.release(3);
    assert_eq!(outcomes(calls).await, doubles([1, 6, 5]));
    assert_eq!(writer.batches().concat(), [1, 6, 5]);
    writer.release(1);
    assert_eq!(batch.submit(10).await.unwrap(), 20, "there is room for as much as before");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_takes_nobody_with_it() {
    let writer = Doubler::held();
    let batch = start(&writer, |_| {});
    let mut calls = submit(&batch, [0]).await;
    calls.extend(submit(&batch, 1..4).await);
    for gone in [0, 2] {
        calls[gone].abort();
    }
    writer.release(2);
    let stay = [calls.remove(3), calls.remove(1)];
    assert_eq!(outcomes(stay.into()).await, doubles([3, 1]));
    assert_eq!(writer.batches().concat(), [0, 1, 2, 3], "what was accepted is written");
}

#[tokio::test(start_paused = true)]
async fn a_failed_batch_fails_its_own_items_and_no_others() {
    let writer = Doubler::new(0, |items| match items.contains(&2) {
        true => Err(Error::invalid("no twos").with_source("they are even")),
        false => Ok(()),
    });
    let batch = start(&writer, |settings| settings.items_max = 2);
    let mut calls = submit(&batch, [0]).await;
    calls.extend(submit(&batch, 1..6).await);
    writer.release(9);
    let (bad, good) = (Err(ErrorKind::Invalid), |item: u32| Ok(u64::from(item) * 2));
    assert_eq!(outcomes(calls).await, [good(0), bad, bad, good(3), good(4), good(5)]);
    let error = batch.submit(2).await.unwrap_err();
    assert_eq!(format!("{error:?}"), "Invalid: no twos: they are even");
    assert_eq!(batch.stats().items_failed, 3);
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again_with_growing_waits() {
    let left = Mutex::new(3);
    let writer = Doubler::new(99, move |_| {
        let mut left = left.lock();
        *left -= 1;
        if *left >= 0 { Err(Error::new(ErrorKind::Retry, "not now")) } else { Ok(()) }
    });
    let batch = start(&writer, |settings| {
        settings.retry = RetryPolicy {
            backoff_initial: Duration::from_secs(2),
            backoff_max: Duration::from_secs(60),
            ..RetryPolicy::attempts(4)
        };
    });
    let started = tokio::time::Instant::now();
    assert_eq!(batch.submit(1).await.unwrap(), 2);
    let waited = started.elapsed().as_secs_f64();
    assert!((7.0..=14.1).contains(&waited), "2, 4 and 8 s, or down to half of each: {waited}");
    assert_eq!((writer.batches().len(), batch.stats().writes_again), (4, 3));
}

#[tokio::test(start_paused = true)]
async fn tries_end_and_what_does_not_pass_is_not_tried_again() {
    for (kind, writes) in [(ErrorKind::Retry, 3), (ErrorKind::Invalid, 1), (ErrorKind::OutcomeUnknown, 1)] {
        let writer = Doubler::new(99, move |_| Err(Error::new(kind, "no")));
        let batch = start(&writer, |settings| settings.retry = RetryPolicy::attempts(3));
        assert_eq!(batch.submit(1).await.unwrap_err().kind(), kind);
        assert_eq!(writer.batches().len(), writes);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_another_try_is_told_when_the_executor_is_dropped() {
    let writer = Doubler::new(99, |_| Err(Error::new(ErrorKind::Retry, "not now")));
    let batch = start(&writer, |settings| settings.retry = RetryPolicy::attempts(1000));
    let waiting = batch.try_submit(1).unwrap();
    settle().await;
    drop(batch);
    let started = tokio::time::Instant::now();
    assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::Retry);
    assert!(started.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn splitting_finds_the_items_that_cannot_be_written_and_keeps_the_order() {
    for kind in [ErrorKind::Invalid, ErrorKind::Conflict] {
        let written = Arc::new(Mutex::new(Vec::new()));
        let writer = Doubler::new(0, {
            let written = written.clone();
            move |items| {
                if items.iter().any(|item| item % 40 == 7) {
                    return Err(Error::new(kind, "sevens"));
                }
                written.lock().extend_from_slice(items);
                Ok(())
            }
        });
        let batch = start(&writer, |settings| {
            settings.retry = RetryPolicy::attempts(2);
            settings.split = SplitPolicy::bisect();
        });
        let mut calls = submit(&batch, [1000]).await;
        calls.extend(submit(&batch, 0..100).await);
        writer.release(1000);
        let wanted = [1000_u32].into_iter().chain(0..100);
        let wanted: Vec<_> = wanted.map(|n| if n % 40 == 7 { Err(kind) } else { Ok(u64::from(n) * 2) }).collect();
        assert_eq!(outcomes(calls).await, wanted);
        let in_order: Vec<_> = [1000].into_iter().chain((0..100).filter(|item| item % 40 != 7)).collect();
        assert_eq!(*written.lock(), in_order);
        assert!(writer.batches().len() < 50, "{} writes for 3 of 100", writer.batches().len());
    }
}

#[tokio::test(start_paused = true)]
async fn splitting_has_a_bound_and_leaves_what_is_not_the_items_fault() {
    // To a policy of one's own an item may be the reason of what passes by itself, too.
    let down = Doubler::new(9999, |_| Err(Error::new(ErrorKind::Retry, "down")));
    let batch = start(&down, |settings| {
        settings.linger = Duration::from_secs(1);
        settings.split = SplitPolicy { writes_max: 20, splits: Error::is_retryable };
    });
    let calls = submit(&batch, 0..1000).await;
    assert!(outcomes(calls).await.iter().all(|outcome| *outcome == Err(ErrorKind::Retry)));
    assert_eq!(down.batches().len(), 21);

    let full = Doubler::new(9999, |_| Err(Error::new(ErrorKind::StorageFull, "full")));
    let batch = start(&full, |settings| {
        settings.linger = Duration::from_secs(1);
        settings.split = SplitPolicy::bisect();
    });
    let calls = submit(&batch, 0..10).await;
    assert!(outcomes(calls).await.iter().all(|outcome| *outcome == Err(ErrorKind::StorageFull)));
    assert_eq!(full.batches().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_panics_fails_its_batch_alone() {
    let writer = Doubler::new(0, |items| match items.contains(&1) {
        true => panic!("one too many"),
        false => Ok(()),
    });
    let batch = start(&writer, |settings| settings.items_max = 2);
    let mut calls = submit(&batch, [0]).await;
    calls.extend(submit(&batch, 1..5).await);
    writer.release(99);
    let unknown = Err(ErrorKind::OutcomeUnknown);
    assert_eq!(outcomes(calls).await, [Ok(0), unknown, unknown, Ok(6), Ok(8)]);
    let error = batch.submit(1).await.unwrap_err();
    assert!(error.to_string().contains("panicked: one too many"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_answers_for_too_few_is_not_believed() {
    struct Forgetful;
    impl BatchWriter<u32> for Forgetful {
        async fn write(&self, items: &[u32]) -> Result<Vec<()>> {
            Ok(vec![(); items.len() - 1])
        }
    }
    let batch = BatchExecutor::start("test", Forgetful, BatchSettings::default()).unwrap();
    let error = batch.submit(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(error.to_string().contains("0 results for 1 items"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn several_batches_can_be_in_flight_and_end_in_any_order() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| {
        settings.items_max = 2;
        settings.in_flight_max = 3;
        settings.linger = Duration::from_secs(1);
    });
    let calls = submit(&batch, 0..10).await;
    assert_eq!(writer.batches(), [[0, 1], [2, 3], [4, 5]]);
    writer.release(99);
    assert_eq!(outcomes(calls).await, doubles(0..10));
    // The one that lingers is not forgotten while others are written.
    let alone = submit(&batch, [11]).await;
    assert_eq!(outcomes(alone).await, doubles([11]));
    batch.close().await;
}

/// Real threads and no gaps: whoever submits is answered, with its own result, and nothing is written twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_on_many_threads_have_their_own_answers() {
    for (callers, in_flight_max) in [(1, 1), (50, 1), (50, 4)] {
        const EACH: u32 = 200;
        let writer = Doubler::free();
        let batch = start(&writer, |settings| {
            settings.in_flight_max = in_flight_max;
            settings.items_max = 16;
            settings.waiting_items_max = 20;
        });
        let calls: Vec<_> = (0..callers)
            .map(|caller| {
                let batch = batch.clone();
                tokio::spawn(async move {
                    for item in caller * EACH..(caller + 1) * EACH {
                        assert_eq!(batch.submit(item).await.unwrap(), u64::from(item) * 2);
                    }
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        batch.close().await;
        let mut written = writer.batches().concat();
        written.sort_unstable();
        assert_eq!(written, (0..callers * EACH).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_hangs_is_given_up_and_its_batch_alone_is_of_unknown_outcome() {
    let writer = Doubler::held();
    let limit = Duration::from_secs(7);
    let batch = start(&writer, |settings| settings.write_time_max = limit);
    let hanging = submit(&batch, [1]).await;
    let waiting = submit(&batch, [2, 3]).await;
    tokio::time::sleep(limit).await;
    let error = hanging.into_iter().next().unwrap().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(error.to_string().contains("took longer than write_time_max of 7s"), "{error}");
    writer.release(1);
    assert_eq!(outcomes(waiting).await, [Ok(4), Ok(6)]);
    assert_eq!(writer.batches(), [vec![1], vec![2, 3]]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_writer_hung_is_written_again_only_by_policy() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| {
        settings.write_time_max = Duration::from_secs(7);
        settings.retry =
            RetryPolicy { retries: |error| error.kind() == ErrorKind::OutcomeUnknown, ..RetryPolicy::attempts(2) };
        settings.split = SplitPolicy::bisect();
    });
    let calls = submit(&batch, [1, 2]).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    writer.release(1);
    assert_eq!(outcomes(calls).await, [Ok(2), Ok(4)]);
    let calls = submit(&batch, [3, 4]).await;
    let unknown = Err(ErrorKind::OutcomeUnknown);
    assert_eq!(outcomes(calls).await, [unknown, unknown]);
    assert_eq!(writer.batches(), vec![vec![1, 2]; 2].into_iter().chain(vec![vec![3, 4]; 2]).collect::<Vec<_>>());
}

/// What is down would be down for the halves too: each would be a further write that fails, and wait in vain.
#[tokio::test(start_paused = true)]
async fn a_batch_that_failed_for_a_reason_of_the_writer_is_not_split() {
    for kind in [
        ErrorKind::Retry,
        ErrorKind::Timeout,
        ErrorKind::Overloaded,
        ErrorKind::NotPrimary { hint: None },
        ErrorKind::StorageFull,
        ErrorKind::OutcomeUnknown,
        ErrorKind::Corrupt,
        ErrorKind::Fatal,
    ] {
        let writer = Doubler::new(Semaphore::MAX_PERMITS, move |_| Err(Error::new(kind, "it is down")));
        let batch = start(&writer, |settings| {
            settings.split = SplitPolicy::bisect();
            settings.linger = Duration::from_millis(1);
        });
        let calls = submit(&batch, 0..100).await;
        assert_eq!(outcomes(calls).await, vec![Err(kind); 100]);
        assert_eq!(writer.batches().len(), 1, "{kind:?}");
    }
}
