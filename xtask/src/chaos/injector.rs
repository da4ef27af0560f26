//! Applies the fault of a round, and heals it.

use std::time::Duration;

use super::cluster::Cluster;
use super::fault::Fault;
use super::namespaces::Namespaces;
use super::plan::Round;
use super::time::{now, rest};
use crate::command::Outcome;

/// How long each state of a connection that flaps lasts.
const FLAP: Duration = Duration::from_millis(150);

/// How often the nodes are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(200);

/// Applies a fault for as long as it is to last. `look` is called now and then, and may end it by an error.
pub(super) fn apply(round: &Round, cluster: &mut Cluster, mut look: impl FnMut(&mut Cluster) -> Outcome) -> Outcome {
    let Round { victim, .. } = *round;
    match round.fault {
        Fault::Kill => cluster.kill_node(victim)?,
        Fault::Pause => cluster.node(victim)?.signal("STOP")?,
        Fault::Cut | Fault::CutOneWay | Fault::Flap => cut(round, network(cluster)?)?,
        Fault::Delay => network(cluster)?.delay(victim, round.delay.as_millis())?,
        Fault::Loss => network(cluster)?.lose(victim, round.loss_percent)?,
        Fault::DiskFull => cluster.fill_disk(victim)?,
    }
    let begun = now();
    let mut is_cut = true;
    while let Some(left) = round.hold.checked_sub(begun.elapsed()) {
        if round.fault == Fault::Flap {
            rest(FLAP.min(left));
            is_cut = !is_cut;
            if is_cut {
                cut(round, network(cluster)?)?;
            } else {
                connect(round, network(cluster)?)?;
            }
        } else {
            rest(LOOK.min(left));
        }
        look(cluster)?;
    }
    Ok(())
}

/// Undoes the fault of a round, whatever has become of it.
pub(super) fn heal(round: &Round, cluster: &mut Cluster) -> Outcome {
    let victim = round.victim;
    match round.fault {
        Fault::Kill if cluster.is_down(victim) => cluster.start_node(victim),
        Fault::Kill => Ok(()),
        Fault::Pause => cluster.node(victim)?.signal("CONT"),
        Fault::DiskFull => cluster.free_disk(victim),
        Fault::Cut | Fault::CutOneWay | Fault::Flap | Fault::Delay | Fault::Loss => network(cluster)?.heal(),
    }
}

fn network(cluster: &Cluster) -> Outcome<&Namespaces> {
    cluster.hosts.network().ok_or_else(|| "there is no network here that could be cut".to_owned())
}

/// The directions that a round cuts, as sender and receiver.
fn directions(round: &Round) -> Vec<(usize, usize)> {
    let outgoing = round.others.iter().map(|other| (round.victim, *other));
    let incoming = round.others.iter().map(|other| (*other, round.victim));
    match (round.fault, round.is_outgoing) {
        (Fault::CutOneWay, true) => outgoing.collect(),
        (Fault::CutOneWay, false) => incoming.collect(),
        _ => outgoing.chain(incoming).collect(),
    }
}

fn cut(round: &Round, network: &Namespaces) -> Outcome {
    directions(round).into_iter().try_for_each(|(from, to)| network.cut(from, to))
}

fn connect(round: &Round, network: &Namespaces) -> Outcome {
    directions(round).into_iter().try_for_each(|(from, to)| network.connect(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_has_both_directions_and_a_cut_one_way_has_one() {
        let round = |fault, is_outgoing| Round {
            fault,
            victim: 1,
            others: vec![0, 2],
            is_outgoing,
            delay: Duration::ZERO,
            loss_percent: 0,
            hold: Duration::ZERO,
        };
        assert_eq!(directions(&round(Fault::Cut, true)), [(1, 0), (1, 2), (0, 1), (2, 1)]);
        assert_eq!(directions(&round(Fault::CutOneWay, true)), [(1, 0), (1, 2)]);
        assert_eq!(directions(&round(Fault::CutOneWay, false)), [(0, 1), (2, 1)]);
    }
}
