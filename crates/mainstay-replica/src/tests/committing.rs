//! The committer without openraft: what it merges, in which order, and what callers hear when it closes.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use mainstay_core::task::Scope;
use mainstay_core::{Epoch, ErrorKind, Level, NodeId, Result, SequenceNumber, SetId};
use mainstay_store::state::{Write, WriteBatch};
use parking_lot::Mutex;
use smallvec::smallvec;

use crate::command::ParsedCommand;
use crate::committer::{Commit, Committer};
use crate::inline_executor::InlineExecutor;
use crate::options::{CommitOptions, ReplicaOptions};
use crate::raft::{Applied, Refusals};

const SET: SetId = SetId { level: Level::Volatile, number: 0 };

fn committer(change: impl FnOnce(&mut CommitOptions)) -> Arc<Committer> {
    let mut options = ReplicaOptions::default().commit;
    change(&mut options);
    let committer = Arc::new(Committer::new(SET, options, InlineExecutor::new(&Scope::new())));
    committer.open(Epoch(5));
    committer
}

fn commit(name: &str) -> Commit {
    let mut batch = WriteBatch::new();
    batch.put(name.as_bytes(), b"v");
    Commit { batches: smallvec![batch], epoch: None }
}

/// Polls a commit once: it is in the queue then, or refused.
fn poll<F: Future<Output = Result<SequenceNumber>> + ?Sized>(
    future: std::pin::Pin<&mut F>,
) -> Poll<Result<SequenceNumber>> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn kind(polled: Poll<Result<SequenceNumber>>) -> ErrorKind {
    match polled {
        Poll::Ready(Err(error)) => error.kind(),
        other => panic!("not refused: {other:?}"),
    }
}

/// The keys of the next entry, in order.
fn next_keys(committer: &Committer) -> Option<Vec<String>> {
    let (_, command) = committer.next()?;
    let parsed = ParsedCommand::parse(&command.0).unwrap();
    assert_eq!(parsed.epoch, Epoch(5));
    let key = |write: Write<'_>| match write {
        Write::Put { key, .. } => String::from_utf8(key.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    Some(parsed.writes(0).map(key).collect())
}

#[test]
fn what_waits_becomes_one_entry_in_the_order_in_which_it_came() {
    let committer = committer(|_| ());
    let mut waiting: Vec<_> = ["b", "a", "c"].map(|name| Box::pin(committer.commit(commit(name)))).into();
    waiting.iter_mut().for_each(|commit| assert!(poll(commit.as_mut()).is_pending()));
    let (flight, command) = committer.next().unwrap();
    assert_eq!(ParsedCommand::parse(&command.0).unwrap().writes(0).count(), 3);
    assert!(committer.next().is_none(), "nothing is left");
    committer.land(flight, Some(Ok(response(7, true))));
    for (position, commit) in waiting.iter_mut().enumerate() {
        let Poll::Ready(Ok(sequence)) = poll(commit.as_mut()) else { panic!("no answer") };
        assert_eq!(sequence, SequenceNumber(7 << 16 | position as u64));
    }
    assert!(committer.is_settled());
}

#[test]
fn entries_are_bounded_in_size_and_number() {
    let committer = committer(|options| {
        options.entry_bytes_max = 1;
        options.entries_in_flight_max = 2;
    });
    let mut waiting: Vec<_> = ["a", "b", "c"].map(|name| Box::pin(committer.commit(commit(name)))).into();
    waiting.iter_mut().for_each(|commit| assert!(poll(commit.as_mut()).is_pending()));
    let (first, _) = committer.next().unwrap();
    assert_eq!(next_keys(&committer).unwrap(), ["b"], "one too large to be merged goes alone");
    assert!(committer.next().is_none(), "two are in flight");
    committer.land(first, Some(Ok(response(1, true))));
    assert_eq!(next_keys(&committer).unwrap(), ["c"]);
}

#[test]
fn a_caller_who_went_away_before_anything_happened_is_skipped() {
    let committer = committer(|_| ());
    let mut gone = Box::pin(committer.commit(commit("gone")));
    let mut stays = pin!(committer.commit(commit("stays")));
    assert!(poll(gone.as_mut()).is_pending() && poll(stays.as_mut()).is_pending());
    drop(gone);
    assert_eq!(next_keys(&committer).unwrap(), ["stays"]);
}

/// The last to know a task that has gone is who was to wake it, and the task may have commits of its own that go with it.
#[test]
fn a_task_that_goes_with_its_waker_may_have_commits() {
    struct Task {
        own: Mutex<BoxFuture<'static, Result<SequenceNumber>>>,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    let committer = committer(|_| ());
    let task = || {
        let committer = committer.clone();
        let task = Task { own: Mutex::new(Box::pin(async move { committer.commit(commit("own")).await })) };
        assert!(poll(task.own.lock().as_mut()).is_pending());
        Waker::from(Arc::new(task))
    };
    // It is replaced, dropped with who leaves, and woken.
    let mut replaced = Box::pin(committer.commit(commit("a")));
    let mut left = Box::pin(committer.commit(commit("b")));
    let mut woken = Box::pin(committer.commit(commit("c")));
    for commit in [&mut replaced, &mut left, &mut woken] {
        assert!(commit.as_mut().poll(&mut Context::from_waker(&task())).is_pending());
    }
    assert!(poll(replaced.as_mut()).is_pending());
    drop(left);
    committer.close(None);
    assert!(matches!(kind(poll(woken.as_mut())), ErrorKind::NotPrimary { .. }));
}

/// The first calls the committer's task; the others rely on that it looks, whatever happened to the role in between.
#[tokio::test]
async fn nobody_is_left_waiting_whoever_has_called() {
    let committer = committer(|options| options.entries_in_flight_max = 1);
    for round in 1..=3 {
        let mut alone = pin!(committer.commit(commit("alone")));
        assert!(poll(alone.as_mut()).is_pending());
        let (flight, _) = committer.next().unwrap();
        let crowd = || ["a", "b"].map(|name| Box::pin(committer.commit(commit(name))));
        let mut refused = crowd();
        refused.iter_mut().for_each(|commit| assert!(poll(commit.as_mut()).is_pending()));
        // The task is called and has not looked.
        committer.close(None);
        committer.open(Epoch(5));
        let mut waiting = crowd();
        waiting.iter_mut().for_each(|commit| assert!(poll(commit.as_mut()).is_pending()));
        committer.called().await;
        assert!(committer.next().is_none(), "one is in flight");
        committer.land(flight, Some(Ok(response(round, true))));
        committer.called().await;
        assert_eq!(next_keys(&committer).unwrap(), ["a", "b"]);
        committer.close(None);
        committer.open(Epoch(5));
        for commit in refused.iter_mut().chain(&mut waiting) {
            assert!(poll(commit.as_mut()).is_ready());
        }
        assert_eq!(kind(poll(alone.as_mut())), ErrorKind::OutcomeUnknown);
        committer.land(flight + 1, None);
    }
}

#[test]
fn limits_are_told_and_a_refused_commit_does_not_count() {
    let committer = committer(|options| {
        options.commit_bytes_max = 1000;
        options.waiting_max = 2;
    });
    let mut huge = commit("huge");
    huge.batches[0].put(b"x", &[0; 1000]);
    assert_eq!(kind(poll(pin!(committer.commit(huge)))), ErrorKind::TooLarge);
    let mut other = commit("other");
    other.epoch = Some(Epoch(4));
    assert!(matches!(kind(poll(pin!(committer.commit(other)))), ErrorKind::NotPrimary { .. }));
    let (mut a, mut b) = (pin!(committer.commit(commit("a"))), pin!(committer.commit(commit("b"))));
    assert!(poll(a.as_mut()).is_pending() && poll(b.as_mut()).is_pending());
    assert_eq!(kind(poll(pin!(committer.commit(commit("c"))))), ErrorKind::Overloaded);
    assert_eq!(next_keys(&committer).unwrap(), ["a", "b"]);
    assert!(poll(pin!(committer.commit(commit("d")))).is_pending());
}

#[test]
fn what_trickles_in_waits_for_what_is_in_flight_and_a_crowd_goes_at_once() {
    let committer = committer(|_| ());
    let mut waiting = Vec::new();
    let mut more = |names: &[&str]| {
        for name in names {
            waiting.push(Box::pin(committer.commit(commit(name))));
            assert!(waiting.last_mut().is_some_and(|commit| poll(commit.as_mut()).is_pending()));
        }
    };
    more(&["a", "b", "c", "d"]);
    assert_eq!(next_keys(&committer).unwrap(), ["a", "b", "c", "d"]);
    more(&["e", "f"]);
    assert!(committer.next().is_none(), "two are less than three quarters of four");
    more(&["g"]);
    assert_eq!(next_keys(&committer).unwrap(), ["e", "f", "g"]);
}

#[test]
fn what_was_let_in_and_what_was_refused_is_counted() {
    let committer = committer(|options| options.waiting_max = 2);
    let (mut a, mut b) = (pin!(committer.commit(commit("a"))), pin!(committer.commit(commit("b"))));
    assert!(poll(a.as_mut()).is_pending());
    let one = committer.activity();
    assert!(one.bytes > 0 && one.throttled == 0, "{one:?}");
    assert!(poll(b.as_mut()).is_pending());
    assert_eq!((committer.activity().bytes, committer.activity().waiting), (2 * one.bytes, 2));
    assert_eq!(kind(poll(pin!(committer.commit(commit("c"))))), ErrorKind::Overloaded);
    assert_eq!((committer.activity().bytes, committer.activity().throttled), (2 * one.bytes, 1));
    committer.count_throttled();
    assert_eq!(committer.activity().throttled, 2);
}

#[test]
fn one_commit_is_always_let_in() {
    let committer = committer(|options| (options.waiting_max, options.waiting_bytes_max) = (0, 1));
    let (mut a, mut b) = (pin!(committer.commit(commit("a"))), pin!(committer.commit(commit("b"))));
    assert!(poll(a.as_mut()).is_pending());
    assert_eq!(kind(poll(b.as_mut())), ErrorKind::Overloaded);
    assert_eq!(next_keys(&committer).unwrap(), ["a"]);
}

#[test]
fn closing_refuses_what_waits_and_leaves_what_is_in_flight_unknown() {
    let committer = committer(|options| options.entries_in_flight_max = 1);
    let mut flying = pin!(committer.commit(commit("flying")));
    assert!(poll(flying.as_mut()).is_pending());
    let (flight, _) = committer.next().unwrap();
    let mut waiting = pin!(committer.commit(commit("waiting")));
    assert!(poll(waiting.as_mut()).is_pending());
    committer.close(Some(NodeId(3)));
    assert_eq!(kind(poll(waiting.as_mut())), ErrorKind::NotPrimary { hint: Some(NodeId(3)) });
    assert_eq!(kind(poll(flying.as_mut())), ErrorKind::OutcomeUnknown);
    assert!(!committer.is_settled(), "it has no outcome yet");
    committer.land(flight, None);
    assert!(committer.is_settled());
    assert!(matches!(kind(poll(pin!(committer.commit(commit("late"))))), ErrorKind::NotPrimary { .. }));
    committer.stop("the disk broke".to_owned());
    let mut late = pin!(committer.commit(commit("late")));
    let Poll::Ready(Err(stopped)) = poll(late.as_mut()) else { panic!("accepted") };
    assert!(stopped.kind() == ErrorKind::Fatal && stopped.to_string().contains("the disk broke"), "{stopped}");
}

#[test]
fn an_entry_that_was_dropped_is_unknown_and_one_of_another_epoch_is_refused() {
    let committer = committer(|_| ());
    for (result, expected) in
        [(None, ErrorKind::OutcomeUnknown), (Some(Ok(response(3, false))), ErrorKind::NotPrimary { hint: None })]
    {
        let mut commit = pin!(committer.commit(commit("a")));
        assert!(poll(commit.as_mut()).is_pending());
        let (flight, _) = committer.next().unwrap();
        committer.land(flight, result);
        assert_eq!(kind(poll(commit.as_mut())), expected);
    }
}

fn response(index: u64, accepted: bool) -> openraft::raft::ClientWriteResponse<crate::raft::Types> {
    openraft::raft::ClientWriteResponse {
        log_id: crate::raft::log_id(5, index),
        data: Applied { index, accepted, refused: Refusals::new() },
        membership: None,
    }
}
