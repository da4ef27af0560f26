use std::collections::BTreeMap;

use mainstay_core::NodeId;

use super::Candidate;

/// How many parts of their fault domains two nodes share, from the largest on. Nodes that have none share nothing.
fn shared(one: &str, two: &str) -> usize {
    let parts =
        |domain: &'_ str| domain.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    parts(one).iter().zip(&parts(two)).take_while(|(one, two)| one == two).count()
}

/// What a node has in common with others: the sum over all of them. The less, the fewer replicas fail together.
pub(super) fn closeness(
    nodes: &BTreeMap<NodeId, Candidate>,
    node: NodeId,
    others: impl Iterator<Item = NodeId>,
) -> usize {
    let domain = |node: NodeId| nodes.get(&node).map_or("", |candidate| candidate.fault_domain.as_str());
    others.filter(|other| *other != node).map(|other| shared(domain(node), domain(other))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_compared_from_the_largest_part_on() {
        assert_eq!(shared("eu/a/1", "eu/a/2"), 2);
        assert_eq!(shared("eu/a/1", "us/a/1"), 0);
        assert_eq!((shared("", ""), shared("eu", "eu"), shared("eu", "eu/a")), (0, 1, 1));
    }
}
