//! Which fault comes when, to which node, and for how long: a function of the seed and of nothing else.

use std::fmt;
use std::time::Duration;

use super::fault::Fault;

/// How long a fault lasts, in milliseconds: shorter and longer than leases and elections take.
const HOLD_MS: (u64, u64) = (1_000, 8_000);

/// How long what is sent is delayed, in milliseconds.
const DELAY_MS: (u64, u64) = (20, 300);

/// How much of what is sent is lost, of a hundred.
const LOSS_PERCENT: (u64, u64) = (5, 40);

/// One fault under load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) fault: Fault,
    /// The node that it is done to, from 0.
    pub(super) victim: usize,
    /// From whom it is cut off, by their numbers. The load is the one after the last node.
    pub(super) others: Vec<usize>,
    /// For a cut one way: whether it cannot send, or else cannot hear.
    pub(super) is_outgoing: bool,
    pub(super) delay: Duration,
    pub(super) loss_percent: u64,
    pub(super) hold: Duration,
}

/// Plans rounds. Each of the faults comes once before one comes again.
pub(super) fn plan(seed: u64, nodes: usize, faults: &[Fault], rounds: usize) -> Vec<Round> {
    let mut dice = Dice(seed);
    let mut order: Vec<Fault> = Vec::new();
    let mut planned = Vec::with_capacity(rounds);
    while planned.len() < rounds && !faults.is_empty() {
        if order.is_empty() {
            order = faults.to_vec();
            dice.shuffle(&mut order);
        }
        let Some(fault) = order.pop() else { continue };
        planned.push(round(&mut dice, nodes, fault));
    }
    planned
}

fn round(dice: &mut Dice, nodes: usize, fault: Fault) -> Round {
    let victim = dice.below(nodes);
    // A node alone is cut off from its callers. In a cluster callers still reach it: what it tells them then is what matters.
    let mut others: Vec<usize> =
        if nodes == 1 { vec![nodes] } else { (0..nodes).filter(|node| *node != victim).collect() };
    dice.shuffle(&mut others);
    // From all others, or from some: then there are paths around it.
    if dice.below(3) == 0 {
        others.truncate(1 + dice.below(others.len()));
    }
    others.sort_unstable();
    Round {
        fault,
        victim,
        others,
        is_outgoing: dice.below(2) == 0,
        delay: Duration::from_millis(dice.between(DELAY_MS)),
        loss_percent: dice.between(LOSS_PERCENT),
        hold: Duration::from_millis(dice.between(HOLD_MS)),
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, victim, others, is_outgoing, delay, loss_percent, hold } = self;
        write!(f, "{fault} of node {}", victim + 1)?;
        let names: Vec<_> = others.iter().map(|other| (other + 1).to_string()).collect();
        match fault {
            Fault::Cut | Fault::Flap => write!(f, " from {}", names.join(", "))?,
            Fault::CutOneWay if *is_outgoing => write!(f, " towards {}", names.join(", "))?,
            Fault::CutOneWay => write!(f, " as seen from {}", names.join(", "))?,
            Fault::Delay => write!(f, " by {} ms", delay.as_millis())?,
            Fault::Loss => write!(f, " of {loss_percent} %")?,
            Fault::Kill | Fault::Pause | Fault::DiskFull => {}
        }
        write!(f, " for {:.1} s", hold.as_secs_f64())
    }
}

/// Numbers by a seed (SplitMix64): the same on every machine and with every version of Rust.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to a limit, which it does not reach; 0 if the limit is.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn between(&mut self, (from, to): (u64, u64)) -> u64 {
        from + self.next() % (to - from + 1)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = self.below(end + 1);
            items.swap(end, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_one_plan_and_another_seed_another() {
        assert_eq!(plan(7, 3, &Fault::ALL, 40), plan(7, 3, &Fault::ALL, 40));
        assert_ne!(plan(7, 3, &Fault::ALL, 40), plan(8, 3, &Fault::ALL, 40));
        // A longer plan begins as a shorter one does, so that a round is found again.
        assert_eq!(plan(7, 3, &Fault::ALL, 40)[..10], plan(7, 3, &Fault::ALL, 10));
    }

    #[test]
    fn a_plan_is_the_same_on_every_machine() {
        let rounds: Vec<_> = plan(1, 3, &Fault::ALL, 4).iter().map(ToString::to_string).collect();
        let expected = [
            "pause of node 1 for 3.4 s",
            "kill of node 2 for 7.5 s",
            "loss of node 1 of 24 % for 6.2 s",
            "delay of node 2 by 109 ms for 2.0 s",
        ];
        assert_eq!(rounds, expected);
    }

    #[test]
    fn every_fault_comes_before_one_comes_again_and_every_node_is_a_victim() {
        let rounds = plan(3, 5, &Fault::ALL, 80);
        for part in rounds.chunks(Fault::ALL.len()) {
            let faults: BTreeSet<_> = part.iter().map(|round| round.fault).collect();
            assert_eq!(faults.len(), Fault::ALL.len());
        }
        let victims: BTreeSet<_> = rounds.iter().map(|round| round.victim).collect();
        assert_eq!(victims.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn rounds_are_within_their_bounds() {
        for nodes in [1, 3, 5] {
            for round in plan(11, nodes, &Fault::ALL, 500) {
                assert!(round.victim < nodes);
                assert!(!round.others.is_empty() && !round.others.contains(&round.victim), "{round:?}");
                assert!(round.others.iter().all(|other| *other <= nodes));
                assert!((HOLD_MS.0..=HOLD_MS.1).contains(&(round.hold.as_millis() as u64)));
                assert!((LOSS_PERCENT.0..=LOSS_PERCENT.1).contains(&round.loss_percent));
            }
        }
    }

    #[test]
    fn without_faults_there_is_no_round() {
        assert!(plan(1, 3, &[], 10).is_empty());
    }
}
