use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::resolve::{self, HOLDERS_MAX, Moved, Policy, Resolver, ResolverSettings, Ticket};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{LONG, home, open, start, two_databases};

#[tokio::test]
async fn a_resolution_that_is_held_fails_fast_after_a_move_and_with_follows() {
    let node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    users.assign(7, "db1").await.unwrap();
    let held = users.resolve(7).await.unwrap();
    assert_eq!(held.resource.name, "db1");
    drop(users.begin(&held).await.unwrap());

    users.move_entity(7, "db2").await.unwrap();
    let error = users.begin(&held).await.unwrap_err();
    assert!(Moved::is(&error) && error.kind() == ErrorKind::Conflict, "{error:?}");
    assert_eq!(users.with(7, async |resolution| Ok(resolution.resource.name)).await.unwrap(), "db2");

    let held = users.resolve(7).await.unwrap();
    users.move_partition(held.partition, "db1").await.unwrap();
    assert!(Moved::is(&users.begin(&held).await.unwrap_err()));
    assert_eq!(home(&users, 7).await, "db1");
}

#[tokio::test]
async fn every_holder_of_the_old_resolution_follows_on_its_next_call() {
    let node = start().await;
    let mover = two_databases(&node, Policy::Refuse).await;
    mover.assign(7, "db1").await.unwrap();
    mover.assign(8, "db1").await.unwrap();
    let mut holders = Vec::new();
    for _ in 0..5 {
        let holder = open(&node, Policy::Refuse).await;
        holders.push((holder.resolve(7).await.unwrap(), holder.resolve(8).await.unwrap(), holder));
    }
    mover.move_entity(7, "db2").await.unwrap();
    for (moved, stayed, holder) in &holders {
        assert!(Moved::is(&holder.begin(moved).await.unwrap_err()));
        drop(holder.begin(stayed).await.unwrap());
        assert_eq!(home(holder, 7).await, "db2");
        assert_eq!(home(holder, 8).await, "db1");
    }
}

#[tokio::test]
async fn a_call_that_began_in_time_and_arrives_late_is_refused_at_the_resource() {
    let node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    users.assign(7, "db1").await.unwrap();
    let owner = open(&node, Policy::Refuse).await;
    let (guard1, guard2) = (owner.guard("db1"), owner.guard("db2"));
    let (tries, sent) = (AtomicU64::new(0), Notify::new());
    let call = users.with(7, async |resolution| {
        let ticket = resolution.ticket();
        if tries.fetch_add(1, Ordering::SeqCst) == 0 {
            sent.notify_one();
            // On its way while the entity is moved.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let guard = if ticket.resource == "db1" { &guard1 } else { &guard2 };
        let _pass = guard.enter(&ticket).await?;
        Ok(ticket.resource)
    });
    let moving = async {
        sent.notified().await;
        users.move_entity(7, "db2").await.unwrap();
    };
    let (used, ()) = tokio::join!(call, moving);
    assert_eq!(used.unwrap(), "db2");
    assert_eq!(tries.load(Ordering::SeqCst), 2, "refused once, and then it was looked for again");
}

#[tokio::test]
async fn a_guard_refuses_what_was_never_there_and_learns_of_later_versions() {
    let node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    users.assign(7, "db1").await.unwrap();
    let ticket = users.resolve(7).await.unwrap().ticket();
    let guard = users.guard("db2");
    assert!(Moved::is(&guard.enter(&ticket).await.unwrap_err()));
    let strange = Ticket { partition: 99, ..ticket.clone() };
    assert!(Moved::is(&users.guard("db1").enter(&strange).await.unwrap_err()));
    assert!(Moved::is(&users.guard("nowhere").enter(&ticket).await.unwrap_err()));
    let future = Ticket { version: ticket.version + 1, ..ticket };
    assert_eq!(users.guard("db1").enter(&future).await.unwrap_err().kind(), ErrorKind::Retry);
}

#[tokio::test]
async fn draining_waits_for_what_is_under_way_and_says_so_when_the_time_has_passed() {
    let node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    for entity in 0..20 {
        users.assign(entity, "db1").await.unwrap();
    }
    let other = open(&node, Policy::Refuse).await;
    let resolution = other.resolve(3).await.unwrap();
    let pass = other.begin(&resolution).await.unwrap();

    let error = users.drain_resource("db1", Duration::from_secs(2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("1 have calls under way"), "{error}");
    for entity in 0..20 {
        assert_eq!(home(&users, entity).await, "db2", "everything is moved by then");
    }

    let draining = {
        let users = users.clone();
        tokio::spawn(async move { users.drain_resource("db1", LONG).await })
    };
    node.advance(Duration::from_secs(10)).await;
    assert!(!draining.is_finished());
    drop(pass);
    let begun = tokio::time::Instant::now();
    draining.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_millis(500), "told at once, not by the next renewal");
    users.remove_resource("db1").await.unwrap();
    assert_eq!(users.resources().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_assigned_and_moved_survives_a_kill() {
    let mut node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    users.assign("alice", "db1").await.unwrap();
    users.assign(7, "db1").await.unwrap();
    users.assign(8, "db1").await.unwrap();
    users.move_entity(7, "db2").await.unwrap();
    let partition = users.resolve(8).await.unwrap().partition;
    users.move_partition(partition, "db2").await.unwrap();
    let alice = users.resolve("alice").await.unwrap();
    node.kill().await.unwrap();

    let users = open(&node, Policy::Refuse).await;
    assert_eq!((home(&users, 7).await, home(&users, 8).await), ("db2".into(), "db2".into()));
    assert_eq!(users.resolve("alice").await.unwrap().partition, alice.partition);
    drop(users.begin(&alice).await.unwrap());
}

#[tokio::test]
async fn a_move_that_is_not_committed_has_not_happened() {
    let node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    users.assign(7, "db1").await.unwrap();
    let held = users.resolve(7).await.unwrap();
    node.fail_next_commit();
    users.move_entity(7, "db2").await.unwrap_err();
    node.fail_next_commit();
    users.move_partition(held.partition, "db2").await.unwrap_err();
    drop(users.begin(&held).await.unwrap());
    assert_eq!(home(&users, 7).await, "db1");
}

#[tokio::test]
async fn a_move_that_nobody_knows_how_to_make_is_refused_by_name() {
    let node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    assert_eq!(users.move_entity(7, "db2").await.unwrap_err().kind(), ErrorKind::NotFound);
    users.assign(7, "db1").await.unwrap();
    users.assign(7, "db1").await.unwrap();
    assert_eq!(users.assign(7, "db2").await.unwrap_err().kind(), ErrorKind::Conflict);
    let error = users.move_entity(7, "db3").await.unwrap_err();
    assert!(error.to_string().contains("no resource \"db3\": there are \"db1\", \"db2\""), "{error}");
    assert_eq!(users.drain_resource("db3", LONG).await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// Where each entity may be: on one resource, or on two while it is being moved.
type Allowed = Arc<Mutex<BTreeMap<i64, Vec<String>>>>;

/// Uses entities again and again, and counts the calls that begin where the entity may not be.
async fn use_entities(users: Resolver, allowed: Allowed, wrong: Arc<AtomicU64>, right: Arc<AtomicU64>) {
    for round in 0_i64.. {
        let entity = round.rem_euclid(8);
        let outcome = users.with(entity, async |resolution| {
            let is_allowed = allowed.lock()[&entity].contains(&resolution.resource.name);
            let count = if is_allowed { &right } else { &wrong };
            count.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok(())
        });
        outcome.await.unwrap();
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}

#[tokio::test]
async fn nothing_begins_under_the_old_resolution_once_a_move_has_returned() {
    let node = start().await;
    let mover = two_databases(&node, Policy::Refuse).await;
    let allowed = Allowed::default();
    for entity in 0..8 {
        mover.assign(entity, "db1").await.unwrap();
        allowed.lock().insert(entity, vec!["db1".into()]);
    }
    let (wrong, right) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut users = Vec::new();
    for _ in 0..4 {
        let holder = open(&node, Policy::Refuse).await;
        users.push(tokio::spawn(use_entities(holder, allowed.clone(), wrong.clone(), right.clone())));
    }
    for round in 0..40_i64 {
        let (entity, target) = (round.rem_euclid(8), if (round / 8) % 2 == 0 { "db2" } else { "db1" });
        allowed.lock().insert(entity, vec!["db1".into(), "db2".into()]);
        mover.move_entity(entity, target).await.unwrap();
        allowed.lock().insert(entity, vec![target.into()]);
        node.advance(Duration::from_millis(7)).await;
    }
    users.iter().for_each(tokio::task::JoinHandle::abort);
    assert_eq!(wrong.load(Ordering::SeqCst), 0);
    assert!(right.load(Ordering::SeqCst) > 1000);
}

/// How long a move takes, in the time of the test.
async fn time_to_move(users: &Resolver, target: &str) -> Duration {
    let begun = Instant::now();
    users.move_entity(7, target).await.unwrap();
    begun.elapsed()
}

#[tokio::test]
async fn a_node_that_stops_in_order_leaves_no_lease_behind_for_the_first_move_to_wait_for() {
    let mut node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    users.assign(7, "db1").await.unwrap();
    let held = users.resolve(7).await.unwrap();
    let lease = ResolverSettings::default().lease;
    node.restart().await.unwrap();
    let again = open(&node, Policy::Refuse).await;
    let took = time_to_move(&again, "db2").await;
    assert!(took < lease / 10, "it has waited for {took:?}");
    let error = users.begin(&held).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "a holder that has left begins nothing: {error:?}");

    node.kill().await.unwrap();
    let last = open(&node, Policy::Refuse).await;
    let took = time_to_move(&last, "db1").await;
    assert!(took >= lease, "a killed one may still be there for all that is known: {took:?}");
}

#[tokio::test]
async fn a_holder_with_calls_under_way_keeps_its_lease_when_its_node_stops() {
    let mut node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    users.assign(7, "db1").await.unwrap();
    let under_way = users.begin(&users.resolve(7).await.unwrap()).await.unwrap();
    node.restart().await.unwrap();
    let again = open(&node, Policy::Refuse).await;
    assert!(time_to_move(&again, "db2").await >= ResolverSettings::default().lease);
    drop(under_way);
}

#[interface]
trait Asker {
    async fn home_of(&self, entity: i64) -> Result<String>;
}

#[derive(Actor)]
#[actor(implements(Asker))]
struct AskerActor {
    ctx: Context,
}

impl Asker for AskerActor {
    async fn home_of(&self, entity: i64) -> Result<String> {
        let users = Resolver::open(&self.ctx, "users", ResolverSettings::default()).await?;
        Ok(users.resolve(entity).await?.resource.name)
    }
}

#[tokio::test]
async fn any_number_of_actors_that_open_a_resolver_are_one_holder() {
    let node = TestNode::start(|node| resolve::serve(node).actor::<AskerActor>()).await.unwrap();
    let users = two_databases(&node, Policy::Refuse).await;
    users.assign(7, "db1").await.unwrap();
    for actor in 0..=HOLDERS_MAX as i64 {
        let asker: AskerRef = node.actor(actor).unwrap();
        assert_eq!(asker.home_of(7).await.unwrap(), "db1");
    }
}
