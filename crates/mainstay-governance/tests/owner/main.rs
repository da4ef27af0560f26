//! One owner of the real thing: what it holds, what it does when something fails, and who is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "built as an application is: its clock is tokio's")]

#[path = "../fake/mod.rs"]
mod fake;

mod failures;
mod fencing;
mod lifetime;

use fake::{Fake, World};
use mainstay::testkit::TestNode;
use mainstay_governance::owner::{OwnerRef, OwnerSettings, ResourceOwner};

async fn start(world: &World, owner: OwnerSettings) -> TestNode {
    let fake = Fake { world: world.clone(), owner, ..Fake::default() };
    TestNode::start(move |node| ResourceOwner::serve(node, fake.clone())).await.unwrap()
}

fn owner(node: &TestNode, key: &str) -> OwnerRef<Fake> {
    node.actor(key).unwrap()
}

#[tokio::test]
async fn an_owner_that_is_not_served_says_how_to_serve_it() {
    let node = TestNode::start(|node| node).await.unwrap();
    let error = node.actor::<OwnerRef<Fake>>("key").unwrap_err();
    assert_eq!(error.kind(), mainstay::ErrorKind::NotFound);
    let text = "nothing on this node implements Owner; build the node with `ResourceOwner::serve(builder, resource)`";
    assert_eq!(error.to_string(), text);
}
