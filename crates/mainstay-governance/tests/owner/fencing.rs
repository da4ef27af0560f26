//! Who is refused, and by what: regression tests for the exclusive writer of the original, whose old primary went on to hold
//! and write the file for a minute or two after another had taken over.

use mainstay::prelude::*;
use mainstay_governance::owner::{Fence, Opening, OwnerSettings, Resource as _, ResourceOwner};

use crate::fake::{Fake, Job, World, until};
use crate::{owner, start};

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

    node.deactivate_actor::<ResourceOwner<Fake>>("journal").await.unwrap();
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
    assert_eq!(world.tokens("journal"), [1, 2, 2], "the second was that of the other");
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
