//! News without entries wait for entries, but not for long.

use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use mainstay_core::time;
use openraft::raft::AppendEntriesRequest;
use tokio::sync::mpsc;

use crate::coalesce_empty_appends::CoalesceEmptyAppends;
use crate::raft::{Entry, Types, log_id, vote};

fn request(committed: u64, entry: Option<u64>) -> AppendEntriesRequest<Types> {
    AppendEntriesRequest {
        vote: vote(1, 1, true),
        prev_log_id: None,
        entries: entry
            .map(|index| Entry { log_id: log_id(1, index), payload: openraft::EntryPayload::Blank })
            .into_iter()
            .collect(),
        leader_commit: Some(log_id(1, committed)),
    }
}

/// What is committed and how many entries there are.
fn told(request: Option<AppendEntriesRequest<Types>>) -> Option<(u64, usize)> {
    request.map(|request| (request.leader_commit.unwrap().index, request.entries.len()))
}

fn channel() -> (mpsc::Sender<AppendEntriesRequest<Types>>, impl Stream<Item = AppendEntriesRequest<Types>> + Unpin) {
    let (send, mut receive) = mpsc::channel(8);
    (send, stream::poll_fn(move |cx| receive.poll_recv(cx)))
}

#[tokio::test(start_paused = true)]
async fn entries_carry_the_news_along() {
    let (send, requests) = channel();
    let mut coalesce_empty_appends = CoalesceEmptyAppends::new(requests);
    send.try_send(request(5, None)).unwrap();
    send.try_send(request(6, None)).unwrap();
    assert!(coalesce_empty_appends.next().now_or_never().is_none(), "news went out alone");
    send.try_send(request(7, Some(8))).unwrap();
    assert_eq!(told(coalesce_empty_appends.next().await), Some((7, 1)));
    assert!(coalesce_empty_appends.next().now_or_never().is_none(), "old news went out after newer ones");
}

#[tokio::test(start_paused = true)]
async fn news_that_nothing_follows_go_out_soon() {
    let (send, requests) = channel();
    let mut coalesce_empty_appends = CoalesceEmptyAppends::new(requests);
    send.try_send(request(5, None)).unwrap();
    send.try_send(request(6, None)).unwrap();
    let start = time::now();
    assert_eq!(told(coalesce_empty_appends.next().await), Some((6, 0)));
    assert_eq!((time::now() - start).as_millis(), 2);
    send.try_send(request(6, Some(7))).unwrap();
    assert_eq!(told(coalesce_empty_appends.next().await), Some((6, 1)));
}

#[tokio::test(start_paused = true)]
async fn the_last_request_waits_for_nobody_and_the_end_is_told_again() {
    let mut coalesce_empty_appends = CoalesceEmptyAppends::new(stream::iter([request(5, None)]));
    assert_eq!(told(coalesce_empty_appends.next().now_or_never().unwrap()), Some((5, 0)));
    assert_eq!(told(coalesce_empty_appends.next().now_or_never().unwrap()), None);
    assert_eq!(told(coalesce_empty_appends.next().now_or_never().unwrap()), None);
}
