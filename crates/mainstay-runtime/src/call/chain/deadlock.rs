//! Deadlock detection for resources with a capacity (the AND-OR model).
//!
//! A turn can proceed when all nodes that it waits for can; an actor becomes free when all turns that hold it have ended;
//! an instance of a pool becomes free when any one of its holders has ended. So a cycle alone is no deadlock where a
//! resource has a capacity: there is a deadlock only if no node that is waited for can proceed.

use std::sync::Arc;

use super::{HeldResource, Link, Visited, WaitNode};

/// A node of the wait-for graph: a turn or a resource.
struct GraphNode {
    needs: Needs,
    /// Indexes of the nodes that it waits for.
    waits_for: Vec<usize>,
    can_go_on: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    All,
    /// One of them, or none if there are fewer than the capacity.
    OneOf(usize),
    /// Never satisfied: the turn that is asking.
    Never,
}

/// True if `target` becomes free although the asking turn waits for it.
pub(super) fn can_go_on(asks: &Arc<Link>, target: &Arc<dyn HeldResource>) -> bool {
    let mut nodes = gather(asks, target);
    // Nodes are in breadth-first order, so going backwards visits what is waited for first, and one or two rounds reach the
    // fixed point.
    loop {
        let mut is_changed = false;
        for at in (0..nodes.len()).rev() {
            if nodes[at].can_go_on {
                continue;
            }
            let free = nodes[at].waits_for.iter().filter(|next| nodes[**next].can_go_on).count();
            nodes[at].can_go_on = match nodes[at].needs {
                Needs::All => free == nodes[at].waits_for.len(),
                Needs::OneOf(capacity) => free > 0 || nodes[at].waits_for.len() < capacity,
                Needs::Never => false,
            };
            is_changed |= nodes[at].can_go_on;
        }
        if !is_changed {
            // The first node is the target.
            return nodes.first().is_none_or(|target| target.can_go_on);
        }
    }
}

/// The part of the wait-for graph that is reachable from `target`.
fn gather(asks: &Arc<Link>, target: &Arc<dyn HeldResource>) -> Vec<GraphNode> {
    let mut visited = Visited::default();
    let mut nodes = Vec::new();
    let mut all = vec![WaitNode::Resource(target.clone())];
    visited.place(&all[0], 0);
    let mut at = 0;
    while at < all.len() {
        let (needs, next) = match &all[at] {
            WaitNode::Turn(turn) if Arc::ptr_eq(turn, asks) => (Needs::Never, Vec::new()),
            WaitNode::Turn(turn) => (Needs::All, turn.awaited()),
            WaitNode::Resource(resource) => (
                resource.capacity().map_or(Needs::All, Needs::OneOf),
                resource.holders().into_iter().map(WaitNode::Turn).collect(),
            ),
        };
        let mut waits_for = Vec::with_capacity(next.len());
        for next in next {
            let place = visited.place(&next, all.len());
            if place == all.len() {
                all.push(next);
            }
            waits_for.push(place);
        }
        nodes.push(GraphNode { needs, waits_for, can_go_on: false });
        at += 1;
    }
    nodes
}
