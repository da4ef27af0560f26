use std::time::Duration;

use mainstay::ErrorKind;
use mainstay_governance::owner::{OwnerRef, OwnerSettings, OwnerState, ResourceOwner};

use crate::fake::{Fake, Job, World};
use crate::{owner, start};

/// More than the `idle_timeout` of actors.
const LONG: Duration = Duration::from_secs(2 * 60 * 60);

#[tokio::test]
async fn it_is_opened_on_activation_and_closed_when_its_owner_leaves_memory() {
    let world = World::default();
    let node = start(&world, OwnerSettings::default()).await;
    let journal = owner(&node, "journal");
    assert_eq!(journal.status().await.unwrap().state, OwnerState::Open, "a look is enough");
    assert_eq!(journal.run(Job::Note(1)).await.unwrap(), 1);
    assert_eq!(world.open(), ["journal"]);
    node.deactivate_actor::<ResourceOwner<Fake>>("journal").await.unwrap();
    assert!(world.open().is_empty());
    assert_eq!(journal.run(Job::Note(2)).await.unwrap(), 2);
    assert_eq!((world.numbers(), world.tokens("journal")), (vec![1, 2], vec![1, 2]));
    world.assert_sane();
}

#[tokio::test]
async fn owners_of_different_keys_are_open_beside_each_other() {
    let world = World::default();
    let node = start(&world, OwnerSettings::default()).await;
    for key in ["a", "b", "a/3"] {
        owner(&node, key).run(Job::Note(0)).await.unwrap();
    }
    assert_eq!(world.open(), ["a", "a/3", "b"]);
    let error = node.actor::<OwnerRef<Fake>>(7).unwrap().run(Job::Note(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "7 and \"7\" are two actors, and would be one key");
}

#[tokio::test]
async fn a_node_that_stops_closes_what_it_has_open() {
    let world = World::default();
    let mut node = start(&world, OwnerSettings::default()).await;
    owner(&node, "journal").run(Job::Note(1)).await.unwrap();
    node.restart().await.unwrap();
    assert!(world.open().is_empty());
    owner(&node, "journal").run(Job::Note(2)).await.unwrap();
    assert_eq!(world.tokens("journal"), [1, 2]);
    world.assert_sane();
}

#[tokio::test]
async fn an_unused_one_is_closed_unless_it_is_to_stay_open() {
    let world = World::default();
    let node = start(&world, OwnerSettings::default()).await;
    owner(&node, "journal").run(Job::Note(1)).await.unwrap();
    node.advance(LONG).await;
    assert!(world.open().is_empty());

    let world = World::default();
    let stay_open = Some(Duration::from_secs(5 * 60));
    let mut node = start(&world, OwnerSettings { stay_open, ..OwnerSettings::default() }).await;
    owner(&node, "journal").run(Job::Note(1)).await.unwrap();
    node.advance(LONG).await;
    assert_eq!((world.open(), world.tokens("journal")), (vec!["journal".to_owned()], vec![1]));
    world.lose_power();
    node.kill().await.unwrap();
    node.advance(LONG).await;
    assert_eq!((world.open(), world.tokens("journal")), (vec!["journal".to_owned()], vec![1, 2]), "by itself");
    world.assert_sane();
}
