//! Whether one who stands in line for one of several places will ever get it.
//!
//! A turn goes on when all that it waits for does; an actor is free when all turns that hold it have ended; and a place in a
//! pool is free when one of the turns has that hold it. So a circle of waits is not enough where there are places: only if
//! nothing of what is waited for can go on, it never will.

use std::sync::Arc;

use super::{Line, Link, Next, Seen};

/// A turn or a line, and what it waits for.
struct Node {
    needs: Needs,
    /// Where they are among the nodes.
    waits_for: Vec<usize>,
    can_go_on: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    All,
    /// One of them, or none if there are fewer.
    OneOf(usize),
    /// What cannot be: it is the one that asks.
    Never,
}

/// True if `target` becomes free without a turn that is about to wait for it.
pub(super) fn can_go_on(asks: &Arc<Link>, target: &Arc<dyn Line>) -> bool {
    let mut nodes = gather(asks, target);
    // What goes on with what it waits for stands behind that, mostly. So this is done after a round or two.
    loop {
        let mut is_changed = false;
        for at in (0..nodes.len()).rev() {
            if nodes[at].can_go_on {
                continue;
            }
            let free = nodes[at].waits_for.iter().filter(|next| nodes[**next].can_go_on).count();
            nodes[at].can_go_on = match nodes[at].needs {
                Needs::All => free == nodes[at].waits_for.len(),
                Needs::OneOf(places) => free > 0 || nodes[at].waits_for.len() < places,
                Needs::Never => false,
            };
            is_changed |= nodes[at].can_go_on;
        }
        if !is_changed {
            // The first is the target.
            return nodes.first().is_none_or(|target| target.can_go_on);
        }
    }
}

/// All that is waited for, one by another.
fn gather(asks: &Arc<Link>, target: &Arc<dyn Line>) -> Vec<Node> {
    let mut seen = Seen::default();
    let mut nodes = Vec::new();
    let mut all = vec![Next::Line(target.clone())];
    seen.place(&all[0], 0);
    let mut at = 0;
    while at < all.len() {
        let (needs, next) = match &all[at] {
            Next::Turn(turn) if Arc::ptr_eq(turn, asks) => (Needs::Never, Vec::new()),
            Next::Turn(turn) => (Needs::All, turn.awaited()),
            Next::Line(line) => {
                (line.places().map_or(Needs::All, Needs::OneOf), line.holders().into_iter().map(Next::Turn).collect())
            }
        };
        let mut waits_for = Vec::with_capacity(next.len());
        for next in next {
            let place = seen.place(&next, all.len());
            if place == all.len() {
                all.push(next);
            }
            waits_for.push(place);
        }
        nodes.push(Node { needs, waits_for, can_go_on: false });
        at += 1;
    }
    nodes
}
