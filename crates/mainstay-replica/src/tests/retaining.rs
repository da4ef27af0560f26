//! Where the log is cut with regard to replicas that are behind.

use std::sync::Arc;

use mainstay_core::ReplicaId;
use mainstay_core::time::{self, Duration};

use crate::retention::{Bounds, Place, Retention};

const SILENCE_MAX: Duration = Duration::from_secs(4);
const BOUNDS: Bounds = Bounds { first: 100, floor: 200, wanted: 500 };

fn place(id: u64, next: u64) -> Place {
    Place { replica: ReplicaId(id), next, answers: true }
}

fn retention() -> Arc<Retention> {
    Arc::new(Retention::new(SILENCE_MAX))
}

#[tokio::test(start_paused = true)]
async fn the_log_waits_for_who_follows_and_answers_down_to_the_floor() {
    let retention = retention();
    assert_eq!(retention.cut(BOUNDS, &[]), 500, "who is not primary has nobody to wait for");
    assert_eq!(retention.cut(BOUNDS, &[place(2, 600), place(3, 550)]), 500, "nobody is behind");
    assert_eq!(retention.cut(BOUNDS, &[place(2, 400), place(3, 300), place(4, 600)]), 300);
    let silent = Place { answers: false, ..place(3, 300) };
    assert_eq!(retention.cut(BOUNDS, &[place(2, 400), silent]), 400, "it may be gone for good");
    assert_eq!(retention.cut(BOUNDS, &[place(2, 199), place(3, 400)]), 400, "too far behind: it gets the state");
    assert_eq!(retention.cut(BOUNDS, &[place(2, 200)]), 200);
    let cut_before = Bounds { first: 300, ..BOUNDS };
    assert_eq!(retention.cut(cut_before, &[place(2, 250)]), 500, "what it needs is gone already");
    retention.is_cut(450);
    assert_eq!(retention.cut(BOUNDS, &[place(2, 440)]), 500, "who was given up once is not waited for again");
    retention.is_cut(200);
    assert_eq!(retention.first(), 450);
}

#[tokio::test(start_paused = true)]
async fn the_log_waits_for_each_state_on_its_way() {
    let retention = retention();
    let others = [place(2, 0), place(3, 0)];
    assert_eq!(retention.cut(BOUNDS, &others), 500);
    let (two, three) = (retention.send(ReplicaId(2), 1, 300), retention.send(ReplicaId(3), 2, 350));
    assert_eq!(retention.cut(BOUNDS, &others), 300);
    two.arrived();
    assert_eq!(retention.cut(BOUNDS, &others), 300, "openraft does not know of it yet");
    assert_eq!(
        retention.cut(BOUNDS, &[place(2, 320), place(3, 0)]),
        320,
        "now it does, and the replica goes on from there"
    );
    assert_eq!(retention.cut(BOUNDS, &[place(2, 450), place(3, 0)]), 350);
    drop(three);
    assert_eq!(retention.cut(BOUNDS, &[place(2, 450), place(3, 0)]), 450, "that transfer has failed");

    let first = retention.send(ReplicaId(3), 3, 310);
    let _second = retention.send(ReplicaId(3), 4, 330);
    drop(first);
    assert_eq!(retention.cut(BOUNDS, &[place(3, 0)]), 330, "the end of the one before does not touch it");
    assert_eq!(retention.cut(BOUNDS, &[]), 500, "the role has gone, or the replica was removed");
    let later = Bounds { floor: 400, wanted: 600, ..BOUNDS };
    assert_eq!(retention.cut(later, &[place(3, 0)]), 600, "so much was committed meanwhile that it was for nothing");
}

#[tokio::test(start_paused = true)]
async fn a_state_is_not_waited_for_when_its_replica_falls_silent() {
    let retention = retention();
    let silent = [Place { answers: false, ..place(2, 0) }];
    let sending = retention.send(ReplicaId(2), 1, 300);
    for _ in 0..10 {
        time::sleep(SILENCE_MAX / 2).await;
        sending.answered();
        assert_eq!(retention.cut(BOUNDS, &silent), 300, "it takes the parts, whatever else it does not answer");
    }
    time::sleep(SILENCE_MAX).await;
    assert_eq!(retention.cut(BOUNDS, &silent), 500);
    sending.silent_for(Duration::from_secs(60));
    time::sleep(Duration::from_secs(59)).await;
    assert_eq!(retention.cut(BOUNDS, &silent), 300, "it is busy putting the state in force");
    time::sleep(Duration::from_secs(1)).await;
    assert_eq!(retention.cut(BOUNDS, &silent), 500);
    sending.arrived();
    assert_eq!(retention.cut(BOUNDS, &silent), 300);
    time::sleep(SILENCE_MAX).await;
    assert_eq!(retention.cut(BOUNDS, &silent), 500, "it went away just then");
}
