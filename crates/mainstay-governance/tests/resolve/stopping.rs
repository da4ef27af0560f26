//! What a resolver says to those who have work left while their node stops.

use std::sync::Arc;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::resolve::{self, Policy, Resolver, ResolverSettings};
use tokio::sync::Notify;

use super::two_databases;

/// Where a turn waits, so that it is under way when its node stops.
#[derive(Clone, Default)]
struct Gate {
    reached: Arc<Notify>,
    opened: Arc<Notify>,
}

#[interface]
trait Visitor {
    /// Waits at the gate, and answers where it lives after that.
    async fn visit(&self) -> Result<String>;
}

#[derive(Actor)]
#[actor(implements(Visitor))]
struct VisitorActor {
    gate: Provided<Gate>,
    ctx: Context,
}

impl Visitor for VisitorActor {
    async fn visit(&self) -> Result<String> {
        let resolver = Resolver::open(&self.ctx, "users", ResolverSettings::default()).await?;
        self.gate.reached.notify_one();
        self.gate.opened.notified().await;
        resolver.with(self.ctx.id(), async |resolution| Ok(resolution.resource.name)).await
    }
}

#[tokio::test]
async fn a_turn_that_ends_while_its_node_stops_may_be_tried_again() {
    let gate = Gate::default();
    let provided = gate.clone();
    let node = TestNode::start(move |node| resolve::serve(node).provide(provided.clone()).actor::<VisitorActor>());
    let node = node.await.unwrap();
    let users = two_databases(&node, Policy::Refuse).await;
    users.assign(7, "db1").await.unwrap();
    let visitor: VisitorRef = node.actor(7).unwrap();
    let visiting = tokio::spawn(async move { visitor.visit().await });
    gate.reached.notified().await;

    // As soon as the resolver has left, while turns have their grace.
    let release = async {
        while users.resolve(7).await.is_ok() {
            tokio::task::yield_now().await;
        }
        gate.opened.notify_one();
        visiting.await.unwrap()
    };
    let ((), visited) = tokio::join!(node.stop(), release);
    let error = visited.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("nothing was begun"), "{error}");

    // Also to who has held on to it.
    let error = users.resolve(7).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}
