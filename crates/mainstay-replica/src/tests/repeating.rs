//! A question is put again when its answer may have been lost, and not for ever.

use std::cell::Cell;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Error, ErrorKind, Result};

use crate::repeat::{Patience, repeat};

const PATIENCE: Patience = Patience { first: Duration::from_secs(1), limit: Duration::from_secs(60) };

/// Asks; what happens to each question is decided by its number, from 0 on. Returns how often it was asked, too.
async fn asked<F: Future<Output = Result<u32>>>(fate: impl Fn(u32) -> F) -> (Result<Option<u32>>, u32) {
    let count = Cell::new(0);
    let answer = repeat(|| fate(count.replace(count.get() + 1)), PATIENCE).await;
    (answer, count.get())
}

#[tokio::test(start_paused = true)]
async fn what_is_answered_is_asked_once() {
    let (answer, count) = asked(async |number| Ok(number)).await;
    assert_eq!((answer.unwrap(), count), (Some(0), 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_is_asked_again_and_a_late_answer_counts() {
    let (answer, count) =
        asked(async |number| if number < 2 { std::future::pending().await } else { Ok(number) }).await;
    assert_eq!((answer.unwrap(), count), (Some(2), 3));
    let began = time::now();
    let slowly = async |number| {
        time::sleep(Duration::from_secs(20)).await;
        Ok(number)
    };
    assert_eq!(asked(slowly).await.0.unwrap(), Some(0), "the first to be asked is the first to be answered");
    assert_eq!(began.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_for_ever() {
    let began = time::now();
    let (answer, count) = asked(async |_| std::future::pending().await).await;
    assert_eq!(answer.unwrap(), None);
    assert_eq!((began.elapsed(), count), (PATIENCE.limit, 6), "after 1, 2, 4, 8 and 16 seconds again");
    let began = time::now();
    let (answer, count) = asked(async |_| Err(Error::new(ErrorKind::Retry, "nobody there"))).await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!((began.elapsed(), count), (PATIENCE.limit, 120));
}

#[tokio::test(start_paused = true)]
async fn an_error_is_followed_by_a_pause_only_if_no_other_answer_can_come() {
    let fate = async |number| match number {
        0 => {
            time::sleep(Duration::from_secs(10)).await;
            Ok(number)
        }
        _ => Err(Error::new(ErrorKind::Retry, "nobody there")),
    };
    let (answer, count) = asked(fate).await;
    assert_eq!((answer.unwrap(), count), (Some(0), 4), "after 1, 2 and 4 seconds again");
}
