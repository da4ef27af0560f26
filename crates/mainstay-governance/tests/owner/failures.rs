use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::owner::{Backoff, OwnerSettings, OwnerState};

use crate::fake::{Job, World, until};
use crate::{owner, start};

/// Longer than any pause of [`settings`].
const PAUSES: Duration = Duration::from_secs(10);

fn settings() -> OwnerSettings {
    let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(4));
    OwnerSettings { backoff, job_time_max: Duration::from_secs(20), ..OwnerSettings::default() }
}

#[tokio::test]
async fn an_opening_that_fails_is_repeated_after_pauses_and_calls_fail_fast_meanwhile() {
    let world = World::default();
    let node = start(&world, settings()).await;
    let journal = owner(&node, "journal");
    world.fail_openings(3);
    let error = journal.run(Job::Note(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    let error = journal.run(Job::Note(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(error.to_string().contains("the server is down; it is opened again in"), "{error}");
    assert_eq!(world.tokens("journal"), [1], "nobody has tried again yet");
    let state = journal.status().await.unwrap().state;
    let OwnerState::Resting { left, cause } = state else { panic!("{state:?}") };
    assert!(left <= Duration::from_secs(1) && cause == "the server is down", "{left:?} {cause}");
    node.advance(PAUSES).await;
    assert_eq!((world.open(), world.tokens("journal")), (vec!["journal".to_owned()], vec![1, 2, 3, 4]), "by itself");
    assert_eq!(journal.run(Job::Note(1)).await.unwrap(), 1);
    world.assert_sane();
}

#[tokio::test]
async fn a_job_that_breaks_the_handle_has_it_opened_anew_and_one_that_is_wrong_itself_does_not() {
    let world = World::default();
    let node = start(&world, settings()).await;
    let journal = owner(&node, "journal");
    assert_eq!(journal.run(Job::Refuse).await.unwrap_err().kind(), ErrorKind::Invalid);
    journal.run(Job::Note(1)).await.unwrap();
    assert_eq!(world.tokens("journal"), [1]);
    assert_eq!(journal.run(Job::Break).await.unwrap_err().to_string(), "the connection was reset");
    assert!(world.open().is_empty());
    journal.run(Job::Note(2)).await.unwrap();
    assert_eq!(world.tokens("journal"), [1, 2], "at once the first time");
    // One after the other is another matter.
    journal.run(Job::Break).await.unwrap_err();
    journal.run(Job::Break).await.unwrap_err();
    let error = journal.run(Job::Note(3)).await.unwrap_err();
    assert!(error.to_string().contains("it is opened again in"), "{error}");
    node.advance(PAUSES).await;
    journal.run(Job::Note(3)).await.unwrap();
    world.assert_sane();
}

#[tokio::test]
async fn a_job_that_panics_or_takes_too_long_costs_the_handle_and_nothing_else() {
    let world = World::default();
    let node = start(&world, settings()).await;
    let journal = owner(&node, "journal");
    let error = journal.run(Job::Panic).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(error.to_string().contains("panicked: the driver has a bug"), "{error}");
    journal.run(Job::Note(1)).await.unwrap();
    let error = journal.run(Job::Hang).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(error.to_string().contains("job_time_max of 20s"), "{error}");
    assert!(world.open().is_empty());
    journal.run(Job::Note(2)).await.unwrap();
    assert_eq!((world.numbers(), world.tokens("journal")), (vec![1, 2], vec![1, 2, 3]));
    world.assert_sane();
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_end_its_job() {
    let world = World::default();
    let node = start(&world, settings()).await;
    let journal = owner(&node, "journal");
    journal.run(Job::Note(1)).await.unwrap();
    let job = journal.run(Job::Slowly(2, Duration::from_secs(5)));
    assert!(tokio::time::timeout(Duration::from_secs(1), job).await.is_err());
    journal.run(Job::Note(3)).await.unwrap();
    assert_eq!((world.numbers(), world.tokens("journal")), (vec![1, 2, 3], vec![1]));
}

#[tokio::test]
async fn a_handle_that_fails_its_check_is_opened_anew_before_anybody_uses_it() {
    let world = World::default();
    let node = start(&world, settings()).await;
    let journal = owner(&node, "journal");
    journal.run(Job::Note(1)).await.unwrap();
    world.set_sick("journal", true);
    until(|| world.open().is_empty()).await;
    world.set_sick("journal", false);
    until(|| !world.open().is_empty()).await;
    journal.run(Job::Note(2)).await.unwrap();
    assert_eq!(world.numbers(), [1, 2]);
    world.assert_sane();
}

#[tokio::test]
async fn settings_that_cannot_be_are_named_by_the_first_call() {
    let world = World::default();
    let node = start(&world, OwnerSettings { close_time_max: Duration::ZERO, ..settings() }).await;
    let error = owner(&node, "journal").run(Job::Note(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("close_time_max of an owner is zero"), "{error}");
    assert!(world.tokens("journal").is_empty());
}
