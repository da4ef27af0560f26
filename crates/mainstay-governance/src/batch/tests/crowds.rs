//! Who is written together: those who come back, and few beside many.

use super::*;

/// Starts callers that each submit an item and, once that is written, another, which is larger by a thousand; and so on.
async fn submit_again_and_again(
    batch: &BatchExecutor<u32, u64>,
    items: std::ops::Range<u32>,
    rounds: u32,
) -> Vec<JoinHandle<()>> {
    let start = |item| {
        let batch = batch.clone();
        tokio::spawn(async move {
            for round in 0..rounds {
                batch.submit(1_000 * round + item).await.unwrap();
            }
        })
    };
    let callers = items.map(start).collect();
    settle().await;
    callers
}

#[tokio::test(start_paused = true)]
async fn callers_that_come_back_go_with_those_who_wait_already() {
    let writer = Doubler::held();
    let batch = start(&writer, |_| {});
    drop(submit_again_and_again(&batch, 0..100, 2).await);
    drop(submit_again_and_again(&batch, 100..200, 2).await);
    writer.release(1);
    settle().await;
    assert_eq!(writer.sizes(), [100, 200], "the first hundred are back, and do not take turns with the others");
}

#[tokio::test(start_paused = true)]
async fn the_halves_of_a_large_crowd_take_turns() {
    let writer = Doubler::held();
    let batch = start(&writer, |_| {});
    drop(submit_again_and_again(&batch, 0..200, 2).await);
    drop(submit_again_and_again(&batch, 200..400, 2).await);
    writer.release(1);
    settle().await;
    assert_eq!(writer.sizes(), [200, 200], "those who wait are enough to begin with");
}

#[tokio::test(start_paused = true)]
async fn those_who_come_back_together_are_written_together() {
    let writer = Doubler::held();
    let batch = start(&writer, |_| {});
    let callers = submit_again_and_again(&batch, 0..10, 5).await;
    writer.release(usize::MAX >> 4);
    for caller in callers {
        caller.await.unwrap();
    }
    let sizes = writer.sizes();
    assert!(sizes.len() <= 7 && sizes.iter().filter(|size| **size == 10).count() >= 4, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn few_items_wait_a_moment_for_those_who_are_in_flight() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| settings.in_flight_max = 5);
    let mut calls = submit(&batch, 0..8).await;
    calls.extend(submit(&batch, 8..14).await);
    assert_eq!(writer.sizes(), [8, 6]);
    calls.extend(submit(&batch, 14..24).await);
    assert_eq!(writer.sizes(), [8, 6], "10 are fewer than three quarters of 14");
    calls.extend(submit(&batch, [24]).await);
    assert_eq!(writer.sizes(), [8, 6, 11]);
    calls.extend(submit(&batch, [25, 26]).await);
    assert_eq!(writer.sizes(), [8, 6, 11]);
    writer.release(1);
    settle().await;
    assert_eq!(writer.sizes(), [8, 6, 11], "and two are fewer than three quarters of 17");
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(writer.sizes(), [8, 6, 11, 2], "but nobody waits longer than a moment");
    // Nor when there is nothing more to wait for.
    calls.extend(submit(&batch, [27]).await);
    assert_eq!(writer.sizes(), [8, 6, 11, 2]);
    let closing = batch.clone();
    let closed = tokio::spawn(async move { closing.close().await });
    settle().await;
    assert_eq!(writer.sizes(), [8, 6, 11, 2, 1]);
    writer.release(99);
    closed.await.unwrap();
    assert_eq!(outcomes(calls).await, doubles(0..28));
}

/// Who is held back takes the place of the first that ends.
#[tokio::test(start_paused = true)]
async fn few_items_go_with_those_who_come_back() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| settings.in_flight_max = 5);
    let mut calls = submit(&batch, 0..8).await;
    calls.extend(submit(&batch, [8]).await);
    assert_eq!(writer.batches().len(), 1);
    let returning = batch.clone();
    let back = calls.remove(0);
    let back = tokio::spawn(async move {
        back.await.unwrap().unwrap();
        returning.submit(9).await.unwrap()
    });
    writer.release(1);
    settle().await;
    assert_eq!(writer.batches()[1..], [[8, 9]]);
    writer.release(1);
    assert_eq!(back.await.unwrap(), 18);
    assert_eq!(outcomes(calls).await, doubles(1..9));
}

#[tokio::test(start_paused = true)]
async fn few_items_are_not_held_back_for_others_that_there_is_no_room_for() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| {
        settings.in_flight_max = 3;
        settings.waiting_items_max = 12;
    });
    let mut calls = submit(&batch, 0..12).await;
    calls.extend(submit(&batch, 12..21).await);
    calls.extend(submit(&batch, 21..33).await);
    assert_eq!(writer.sizes(), [12, 9, 12], "fewer than three quarters of 21, and no more can wait");
    writer.release(99);
    assert_eq!(outcomes(calls).await, doubles(0..33));
}

#[tokio::test(start_paused = true)]
async fn a_burst_after_a_pause_is_cut_once_at_the_most() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| settings.in_flight_max = 5);
    let pair = submit(&batch, [0, 1]).await;
    writer.release(1);
    assert_eq!(outcomes(pair).await, doubles([0, 1]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Two were here last.
    let burst: Vec<_> = (2..102).map(|item| batch.try_submit(item).unwrap()).collect();
    settle().await;
    assert_eq!(writer.sizes(), [2, 1, 99]);
    writer.release(99);
    for (item, submitted) in (2..).zip(burst) {
        assert_eq!(submitted.await.unwrap(), item * 2);
    }
}

#[tokio::test(start_paused = true)]
async fn with_several_lanes_a_small_crowd_is_written_in_halves() {
    let writer = Doubler::held();
    let batch = start(&writer, |settings| settings.in_flight_max = 5);
    let callers = submit_again_and_again(&batch, 0..20, 6).await;
    for _ in 0..64 {
        writer.release(1);
        settle().await;
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let sizes = writer.sizes();
    assert_eq!(sizes[0], 20, "they came together");
    assert!(sizes[1..].iter().all(|size| *size == 10), "{sizes:?}");
}
