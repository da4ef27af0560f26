use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mainstay_state::actor::Published;

use super::{Inbox, Taken};
use crate::Event;
use crate::actor::event::definition::read;

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Said(u64);

impl Event for Said {
    const NAME: &'static str = "Said";
}

const LIFE: u64 = 7;

fn push_to(inbox: &Inbox, life: u64, count: u64, waiting_max: usize) {
    inbox.push(Arc::new(Said(count)), Some(Published { life, count }), waiting_max);
}

fn push(inbox: &Inbox, count: u64) {
    push_to(inbox, LIFE, count, 8);
}

/// What is there, as (number, missed); `None` for a deletion.
fn taken(inbox: &Inbox) -> Vec<Option<(u64, u64)>> {
    let next = || match inbox.take() {
        Some(Taken::Event(waiting)) => {
            assert_eq!(read::<Said>(&*waiting.event).unwrap().0, waiting.sequence);
            Some(Some((waiting.sequence, waiting.missed)))
        }
        Some(Taken::Deleted) => Some(None),
        Some(Taken::Stopped) | None => None,
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn what_was_missed_is_counted_from_the_subscription_and_from_the_last() {
    let inbox = Inbox::default();
    inbox.start(Some(Published { life: LIFE, count: 3 }));
    push(&inbox, 4);
    push(&inbox, 7);
    push(&inbox, 8);
    assert_eq!(taken(&inbox), [Some((4, 0)), Some((7, 2)), Some((8, 0))]);
    push(&inbox, 10);
    assert_eq!(taken(&inbox), [Some((10, 1))]);

    // None had been published, and the first ones went by while the partition was elsewhere.
    let inbox = Inbox::default();
    inbox.start(None);
    push(&inbox, 3);
    assert_eq!(taken(&inbox), [Some((3, 2))]);

    // It is not known what there was.
    let inbox = Inbox::default();
    push(&inbox, 9);
    inbox.start(Some(Published { life: LIFE, count: 2 }));
    push(&inbox, 10);
    assert_eq!(taken(&inbox), [Some((9, 0)), Some((10, 0))]);
}

#[test]
fn an_event_that_was_counted_before_the_subscription_and_left_after_it_is_no_gap() {
    let inbox = Inbox::default();
    inbox.start(Some(Published { life: LIFE, count: 5 }));
    push(&inbox, 5);
    push(&inbox, 6);
    assert_eq!(taken(&inbox), [Some((5, 0)), Some((6, 0))]);
}

#[test]
fn the_oldest_are_displaced_and_counted() {
    let inbox = Inbox::default();
    inbox.start(None);
    (2..=10).for_each(|count| push_to(&inbox, LIFE, count, 3));
    assert_eq!(taken(&inbox), [Some((8, 7)), Some((9, 0)), Some((10, 0))]);
    // A smaller limit holds at once.
    (11..=14).for_each(|count| push_to(&inbox, LIFE, count, 3));
    push_to(&inbox, LIFE, 15, 1);
    assert_eq!(taken(&inbox), [Some((15, 4))]);
}

#[test]
fn a_deletion_is_told_once_in_its_place_and_numbers_start_anew() {
    let inbox = Inbox::default();
    inbox.start(None);
    push(&inbox, 1);
    inbox.delete();
    push_to(&inbox, LIFE + 1, 1, 8);
    inbox.delete();
    assert_eq!(taken(&inbox), [Some((1, 0)), None, Some((1, 0)), None]);
    push_to(&inbox, LIFE + 2, 3, 8);
    assert_eq!(taken(&inbox), [Some((3, 2))]);
}

#[test]
fn a_deletion_that_happened_elsewhere_is_found_by_the_life() {
    let inbox = Inbox::default();
    inbox.start(Some(Published { life: LIFE, count: 1 }));
    push(&inbox, 2);
    push_to(&inbox, LIFE + 1, 5, 8);
    assert_eq!(taken(&inbox), [Some((2, 0)), None, Some((5, 4))]);
}

#[test]
fn a_deletion_is_told_also_if_what_is_around_it_was_displaced() {
    let inbox = Inbox::default();
    inbox.start(None);
    push_to(&inbox, LIFE, 1, 2);
    push_to(&inbox, LIFE, 2, 2);
    inbox.delete();
    (1..=4).for_each(|count| push_to(&inbox, LIFE + 1, count, 2));
    assert_eq!(taken(&inbox), [None, Some((3, 4)), Some((4, 0))]);
}

#[test]
fn an_event_without_a_number_is_the_next() {
    let inbox = Inbox::default();
    inbox.start(Some(Published { life: LIFE, count: 4 }));
    inbox.push(Arc::new(Said(5)), None, 8);
    inbox.delete();
    assert_eq!(taken(&inbox), [Some((5, 0)), None]);
}

#[test]
fn what_waits_at_the_end_can_be_taken_and_nothing_comes_after_it() {
    let inbox = Inbox::default();
    push(&inbox, 1);
    inbox.stop();
    push(&inbox, 2);
    assert_eq!(taken(&inbox), [Some((1, 0))]);
    for _ in 0..2 {
        assert!(matches!(inbox.take(), Some(Taken::Stopped)));
    }
}

#[test]
fn whoever_waits_is_woken_by_an_event_a_deletion_and_the_end() {
    struct Count(std::sync::atomic::AtomicUsize);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let count = Arc::new(Count(0.into()));
    let waker = Waker::from(count.clone());
    let inbox = Inbox::default();
    type Way = (fn(&Inbox), usize);
    let ways: [Way; 3] = [(|inbox| push(inbox, 1), 1), (Inbox::delete, 2), (Inbox::stop, 3)];
    for (way, woken) in ways {
        assert!(inbox.poll(&mut Context::from_waker(&waker)).is_pending());
        way(&inbox);
        assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), woken);
        assert!(matches!(inbox.poll(&mut Context::from_waker(&waker)), Poll::Ready(_)));
    }
}
