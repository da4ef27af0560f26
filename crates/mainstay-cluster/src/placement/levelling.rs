use std::collections::{BTreeMap, BTreeSet};

use mainstay_core::{NodeId, SetId};

use super::domain::closeness;
use super::{Candidate, Current, Placed, voters_of};

/// The placement of the sets of one level, step by step.
pub(super) struct Levelling<'n> {
    nodes: &'n BTreeMap<NodeId, Candidate>,
    target: usize,
    sets: BTreeMap<SetId, Seated<'n>>,
    /// How many replicas of the level each node has.
    loads: BTreeMap<NodeId, usize>,
}

/// A set on its way to where it is to be.
struct Seated<'n> {
    current: &'n Current,
    nodes: BTreeSet<NodeId>,
}

impl<'n> Levelling<'n> {
    pub(super) fn new(
        nodes: &'n BTreeMap<NodeId, Candidate>,
        target: u32,
        sets: impl Iterator<Item = (SetId, &'n Current)>,
    ) -> Self {
        let seated = |current: &'n Current| Seated { current, nodes: current.placed.nodes().collect() };
        let sets: BTreeMap<SetId, Seated<'n>> = sets.map(|(set, current)| (set, seated(current))).collect();
        let mut loads: BTreeMap<NodeId, usize> = nodes.keys().map(|node| (*node, 0)).collect();
        for node in sets.values().flat_map(|seated| &seated.nodes) {
            *loads.entry(*node).or_default() += 1;
        }
        Self { nodes, target: usize::try_from(target).unwrap_or(usize::MAX).max(1), sets, loads }
    }

    pub(super) fn place(mut self) -> BTreeMap<SetId, Placed> {
        let sets: Vec<SetId> = self.sets.keys().copied().collect();
        for set in &sets {
            self.replace_leaving(*set);
        }
        let settled: Vec<SetId> = sets.into_iter().filter(|set| self.sets[set].current.is_settled).collect();
        for set in &settled {
            self.shrink(*set);
            self.fill(*set);
        }
        for set in &settled {
            self.spread(*set);
        }
        self.balance(&settled);
        let seated = std::mem::take(&mut self.sets);
        seated.into_iter().map(|(set, seated)| (set, self.vote(&seated))).collect()
    }

    /// Moves replicas away from nodes that accept nothing, as far as there is another place for them.
    fn replace_leaving(&mut self, set: SetId) {
        let leaving: Vec<NodeId> = self.sets[&set].nodes.iter().copied().filter(|node| !self.accepts(*node)).collect();
        for node in leaving {
            match self.best_free(set, Some(node)) {
                Some(free) => self.relocate(set, node, free),
                // A learner has no vote that counts, and takes the place of a voter.
                None if self.has_learner(set) => self.remove(set, node),
                None => {}
            }
        }
    }

    /// Takes replicas away until there are no more than the target, the ones that are worth least first.
    fn shrink(&mut self, set: SetId) {
        while self.sets[&set].nodes.len() > self.target {
            let seated = &self.sets[&set];
            let worth = |node: &NodeId| {
                let is_voter = seated.current.placed.voters.contains(node);
                let close = closeness(self.nodes, *node, seated.nodes.iter().copied());
                let load = self.loads.get(node).copied().unwrap_or(0);
                (
                    self.accepts(*node),
                    is_voter,
                    std::cmp::Reverse(close),
                    std::cmp::Reverse(load),
                    std::cmp::Reverse(*node),
                )
            };
            let Some(least) = seated.nodes.iter().copied().min_by_key(worth) else { return };
            self.remove(set, least);
        }
    }

    fn fill(&mut self, set: SetId) {
        while self.sets[&set].nodes.len() < self.target {
            let Some(free) = self.best_free(set, None) else { return };
            self.add(set, free);
        }
    }

    /// Moves replicas that share more of their fault domains than they have to.
    fn spread(&mut self, set: SetId) {
        // Each move makes the set less close, so that this ends; a bound all the same.
        for _ in 0..self.sets[&set].nodes.len() {
            let members = self.sets[&set].nodes.clone();
            let gain = |from: NodeId, to: NodeId| {
                let rest = || members.iter().copied().filter(|node| *node != from);
                closeness(self.nodes, from, rest()).saturating_sub(closeness(self.nodes, to, rest()))
            };
            let free: Vec<NodeId> = self.free(set).collect();
            let moves = members.iter().flat_map(|from| free.iter().map(move |to| (*from, *to)));
            let best = moves.filter(|(from, to)| gain(*from, *to) > 0).min_by_key(|(from, to)| {
                let loads = (self.loads.get(to), std::cmp::Reverse(self.loads.get(from)));
                (std::cmp::Reverse(gain(*from, *to)), loads, *to, *from)
            });
            let Some((from, to)) = best else { return };
            self.relocate(set, from, to);
        }
    }

    /// Moves replicas from the nodes with the most to those with the least, until they differ by one at most or no move is left
    /// that brings no replicas closer together.
    fn balance(&mut self, settled: &[SetId]) {
        let moves_max = self.sets.values().map(|seated| seated.nodes.len()).sum::<usize>();
        for _ in 0..moves_max {
            let Some((set, from, to)) = self.balancing_move(settled) else { return };
            self.relocate(set, from, to);
        }
    }

    fn balancing_move(&self, settled: &[SetId]) -> Option<(SetId, NodeId, NodeId)> {
        let mut by_load: Vec<(usize, NodeId)> =
            self.loads.iter().filter(|(node, _)| self.accepts(**node)).map(|(node, load)| (*load, *node)).collect();
        by_load.sort_unstable();
        for (high, from) in by_load.iter().rev() {
            for (_, to) in by_load.iter().take_while(|(low, _)| low + 1 < *high) {
                // A replica that is not there yet goes elsewhere instead, which is no move more.
                let is_new = |set: &SetId| !self.sets[set].current.placed.contains(*from);
                let movable = || settled.iter().copied().filter(|set| self.may_move(*set, *from, *to));
                if let Some(set) = movable().find(is_new).or_else(|| movable().next()) {
                    return Some((set, *from, *to));
                }
            }
        }
        None
    }

    /// True if a set has a replica to move there, and none comes closer to another by it.
    fn may_move(&self, set: SetId, from: NodeId, to: NodeId) -> bool {
        let members = &self.sets[&set].nodes;
        let rest = || members.iter().copied().filter(|node| *node != from);
        members.contains(&from)
            && !members.contains(&to)
            && closeness(self.nodes, to, rest()) <= closeness(self.nodes, from, rest())
    }

    /// Who of the members votes: those that do, then those that have learned, then the new ones.
    fn vote(&self, seated: &Seated<'_>) -> Placed {
        let placed = &seated.current.placed;
        if !seated.current.is_settled {
            // As it was, with the replacements in the places of what they replace.
            let count = placed.voters.len();
            return self.elect(seated, count);
        }
        // Nodes that are gone still count: a set that has lost one must not become a smaller one, unless that is the target.
        let before = placed.voters.len().min(self.target);
        self.elect(seated, voters_of(seated.nodes.len(), self.target).max(before))
    }

    fn elect(&self, seated: &Seated<'_>, count: usize) -> Placed {
        elect(self.nodes, &seated.nodes, &seated.current.placed, count)
    }
    fn has_learner(&self, set: SetId) -> bool {
        let Seated { current, nodes } = &self.sets[&set];
        current.placed.learners.iter().any(|node| nodes.contains(node) && self.accepts(*node))
    }

    fn accepts(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|candidate| candidate.is_accepting)
    }

    /// The nodes that could take a replica of a set.
    fn free(&self, set: SetId) -> impl Iterator<Item = NodeId> + '_ {
        let members = &self.sets[&set].nodes;
        let accepting = self.nodes.iter().filter(|(_, candidate)| candidate.is_accepting).map(|(node, _)| *node);
        accepting.filter(|node| !members.contains(node))
    }

    /// The best of them: far from the others, with few replicas.
    fn best_free(&self, set: SetId, instead_of: Option<NodeId>) -> Option<NodeId> {
        let members = &self.sets[&set].nodes;
        self.free(set).min_by_key(|node| {
            let others = members.iter().copied().filter(|member| Some(*member) != instead_of);
            (closeness(self.nodes, *node, others), self.loads.get(node).copied(), *node)
        })
    }

    fn relocate(&mut self, set: SetId, from: NodeId, to: NodeId) {
        self.remove(set, from);
        self.add(set, to);
    }

    fn add(&mut self, set: SetId, node: NodeId) {
        if self.sets.get_mut(&set).is_some_and(|seated| seated.nodes.insert(node)) {
            *self.loads.entry(node).or_default() += 1;
        }
    }

    fn remove(&mut self, set: SetId, node: NodeId) {
        if self.sets.get_mut(&set).is_some_and(|seated| seated.nodes.remove(&node))
            && let Some(load) = self.loads.get_mut(&node)
        {
            *load -= 1;
        }
    }
}

/// Lets so many of the members vote: those that do, then those that have learned, then the new ones; far from each other.
pub(super) fn elect(
    nodes: &BTreeMap<NodeId, Candidate>,
    members: &BTreeSet<NodeId>,
    before: &Placed,
    count: usize,
) -> Placed {
    let is_leaving = |node: NodeId| nodes.get(&node).is_none_or(|candidate| !candidate.is_accepting);
    let close = |node: NodeId, voters: &BTreeSet<NodeId>| closeness(nodes, node, voters.iter().copied());
    let mut voters: BTreeSet<NodeId> = members.intersection(&before.voters).copied().collect();
    while voters.len() > count {
        let worst = voters.iter().copied().max_by_key(|node| (is_leaving(*node), close(*node, &voters), *node));
        let Some(worst) = worst else { break };
        voters.remove(&worst);
    }
    while voters.len() < count {
        let rank = |node: &NodeId| (is_leaving(*node), close(*node, &voters), !before.learners.contains(node), *node);
        let Some(next) = members.difference(&voters).copied().min_by_key(rank) else { break };
        voters.insert(next);
    }
    let learners = members.difference(&voters).copied().collect();
    Placed { voters, learners }
}
