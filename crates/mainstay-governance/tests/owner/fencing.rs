//! Who is refused, and by what: regression tests for the exclusive writer of the original, whose old primary went on to hold
//! and write the file for a minute or two after another had taken over.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::owner::{Fence, Opening, OwnerSettings, Resource as _, ResourceOwner};

use crate::fake::{Fake, Job, World, until};
use crate::{owner, start};

/// Longer than the pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The defect: nothing fences the old primary, which may still hold the file when the new one writes it.
#[tokio::test]
async fn an_old_owner_that_still_holds_the_resource_is_refused_by_its_token() {
    let world = World::default();
    let node = start(&world, OwnerSettings::default()).await;
    let journal = owner(&node, "journal");
    // An owner that does not know that its time is over: it has opened the resource, and nobody has closed it.
    let outside = Fake { world: world.clone(), ..Fake::default() };
    let mut stale = outside.open(&Opening::new("journal", Fence::new(1))).await.unwrap();
    outside.run(&mut stale, Job::Note(1)).await.unwrap();
    world.lose_power(); // to this world it is gone, and its handle lives on

    journal.run(Job::Note(2)).await.unwrap_err(); // the first token is that of the other
    node.advance(PAUSE).await;
    journal.run(Job::Note(2)).await.unwrap();
    node.deactivate_actor::<ResourceOwner<Fake>>("journal").await.unwrap();
    journal.run(Job::Note(3)).await.unwrap();

    let error = outside.run(&mut stale, Job::Note(4)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error:?}");
    assert!(outside.open(&Opening::new("journal", Fence::new(1))).await.is_err());
    assert_eq!(world.numbers(), [1, 2, 3], "nothing of the stale one");
}

/// The defect, from the other side: an owner that is told that it is stale lets go, and gets a new token or none.
#[tokio::test]
async fn an_owner_that_is_refused_lets_go_and_opens_anew_with_a_larger_token() {
    let world = World::default();
    let node = start(&world, OwnerSettings::default()).await;
    let journal = owner(&node, "journal");
    journal.run(Job::Note(1)).await.unwrap();
    let outside = Fake { world: world.clone(), ..Fake::default() };
    world.lose_power();
    drop(outside.open(&Opening::new("journal", Fence::new(2))).await.unwrap());
    let error = journal.run(Job::Note(2)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error:?}");
    journal.run(Job::Note(3)).await.unwrap();
    assert_eq!(world.numbers(), [1, 3]);
    assert_eq!(world.tokens("journal"), [1, 2, 3], "the second was that of the other");
}

/// An owner whose time is over cannot commit any more, and so it must not open either.
#[tokio::test]
async fn an_owner_that_cannot_save_its_token_does_not_open() {
    let world = World::default();
    let node = start(&world, OwnerSettings::default()).await;
    let journal = owner(&node, "journal");
    node.fail_next_commit();
    let error = journal.run(Job::Note(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error:?}");
    assert!(world.tokens("journal").is_empty());
    journal.run(Job::Note(1)).await.unwrap();

    node.fail_next_commits(3);
    journal.run(Job::Break).await.unwrap_err();
    journal.run(Job::Note(2)).await.unwrap_err();
    assert_eq!(world.tokens("journal"), [1]);
    until(|| world.tokens("journal").len() == 2).await;
    journal.run(Job::Note(2)).await.unwrap();
    assert_eq!(world.numbers(), [1, 2]);
    world.assert_sane();
}

/// The defect: after a failover the counter of a process starts anew. This one is stored before it is used.
#[tokio::test]
async fn tokens_rise_across_kills() {
    let world = World::default();
    let mut node = start(&world, OwnerSettings::default()).await;
    for number in 0..5 {
        owner(&node, "journal").run(Job::Note(number)).await.unwrap();
        world.lose_power();
        node.kill().await.unwrap();
    }
    assert_eq!(world.tokens("journal"), [1, 2, 3, 4, 5]);
    assert_eq!(world.numbers(), [0, 1, 2, 3, 4]);
    world.assert_sane();
}

/// A deleted owner, a backup that is put back, a new folder of data: the counter begins anew, and the outside remembers more.
#[tokio::test]
async fn an_owner_whose_counter_went_back_goes_on_from_what_the_outside_remembers() {
    let world = World::default();
    let mut node = start(&world, OwnerSettings::default()).await;
    for number in 0..20 {
        owner(&node, "journal").run(Job::Note(number)).await.unwrap();
        node.deactivate_actor::<ResourceOwner<Fake>>("journal").await.unwrap();
    }
    owner(&node, "journal").delete_actor().await.unwrap();
    owner(&node, "journal").run(Job::Note(20)).await.unwrap_err();
    node.advance(PAUSE).await;
    owner(&node, "journal").run(Job::Note(20)).await.unwrap();
    assert_eq!(world.tokens("journal")[19..], [20, 1, 21], "refused once, and told");
    node.kill().await.unwrap();
    drop(node);
    // Another folder of data.
    world.lose_power();
    let node = start(&world, OwnerSettings::default()).await;
    owner(&node, "journal").run(Job::Note(21)).await.unwrap_err();
    node.advance(PAUSE).await;
    owner(&node, "journal").run(Job::Note(21)).await.unwrap();
    assert_eq!(world.tokens("journal")[21..], [21, 1, 22]);
    assert_eq!(world.numbers(), Vec::from_iter(0..22));
}

/// A token that the outside has seen already belongs to somebody else, whatever the number is.
#[tokio::test]
async fn an_opening_with_a_token_that_was_seen_is_refused() {
    let world = World::default();
    let outside = Fake { world: world.clone(), ..Fake::default() };
    drop(outside.open(&Opening::new("journal", Fence::new(1))).await.unwrap());
    world.lose_power();
    let node = start(&world, OwnerSettings::default()).await;
    let journal = owner(&node, "journal");
    journal.run(Job::Note(1)).await.unwrap_err();
    assert!(world.open().is_empty());
    node.advance(PAUSE).await;
    journal.run(Job::Note(1)).await.unwrap();
    assert_eq!(world.tokens("journal"), [1, 1, 2]);
}

/// Whoever is told of a higher token and cannot commit does not get past it: its time is over.
#[tokio::test]
async fn an_owner_that_cannot_save_does_not_jump_ahead() {
    let world = World::default();
    let node = start(&world, OwnerSettings::default()).await;
    let journal = owner(&node, "journal");
    journal.run(Job::Note(1)).await.unwrap();
    let outside = Fake { world: world.clone(), ..Fake::default() };
    world.lose_power();
    let mut newer = outside.open(&Opening::new("journal", Fence::new(7))).await.unwrap();
    node.fail_next_commits(3);
    assert!(matches!(journal.run(Job::Note(2)).await.unwrap_err().kind(), ErrorKind::NotPrimary { .. }));
    journal.run(Job::Note(2)).await.unwrap_err();
    outside.run(&mut newer, Job::Note(3)).await.unwrap();
    assert_eq!(world.tokens("journal"), [1, 7]);
    assert_eq!(world.numbers(), [1, 3]);
}
