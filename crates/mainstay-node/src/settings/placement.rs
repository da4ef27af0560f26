use mainstay_core::Level;
use mainstay_core::partitioning::PARTITIONS_MAX;

use super::form::Form;

/// The most replicas of a set. More voters make every commit slower and hardly anything safer.
pub const REPLICAS_MAX: u32 = 9;

/// How many replicas make a set that loses nothing and goes on when one node fails.
const REPLICAS_SAFE: u32 = 3;

/// How many replicas of everything there are while there is one node, whatever the settings say.
pub(crate) const REPLICAS_ON_ONE_NODE: u32 = 1;

/// The names of the settings of a service that say where its state is.
pub(crate) const PERSISTENCE: &str = "persistence";
pub(crate) const PARTITIONS: &str = "partitions";
pub(crate) const REPLICAS_MIN: &str = "replicas.min";
pub(crate) const REPLICAS_TARGET: &str = "replicas.target";

/// The settings of a service that say where its state is, in the order in which they are shown.
pub(crate) const PLACEMENT_KEYS: [&str; 4] = [PERSISTENCE, PARTITIONS, REPLICAS_MIN, REPLICAS_TARGET];

/// What such a setting may be.
pub(crate) fn form(key: &str) -> Option<Form> {
    match key {
        PERSISTENCE => Some(Form::Level),
        PARTITIONS => Some(Form::Count(1..=u64::from(PARTITIONS_MAX))),
        REPLICAS_MIN | REPLICAS_TARGET => Some(Form::Count(1..=u64::from(REPLICAS_MAX))),
        _ => None,
    }
}

/// How many replicas keep the state of a service. With one node there is one replica, whatever this says: the numbers are
/// checked, shown and kept for a cluster.
///
/// A set always counts `target` voters, also those that are down. So writes need a majority of the target, and a set that
/// has lost one replica does not become a smaller set that two failures could split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    /// While fewer are alive the set takes no writes. At least a majority of the target.
    pub min: u32,
    /// So many are placed.
    pub target: u32,
}

impl Replicas {
    /// How many a level has unless told otherwise.
    pub(crate) fn target_default(level: Level) -> u32 {
        match level {
            Level::Persisted | Level::Volatile => REPLICAS_SAFE,
            Level::None => 1,
        }
    }

    /// The least that goes with a target: a majority of it, which every write needs anyway.
    pub(crate) fn min_default(target: u32) -> u32 {
        target / 2 + 1
    }

    /// Refuses what would lose data or stand still without need.
    ///
    /// # Errors
    /// What is wrong and what to use.
    pub(crate) fn check(self, level: Level) -> Result<(), String> {
        let Self { min, target } = self;
        if level == Level::None && (min, target) != (1, 1) {
            return Err(format!(
                "replicas are {min} to {target} and persistence is \"none\", which is kept by one node: leave replicas out, or \
                 use persistence \"volatile\" or \"persisted\""
            ));
        }
        if min > target {
            return Err(format!("replicas.min is {min} and replicas.target is {target}: min may not be above target"));
        }
        if target == 2 {
            return Err(format!(
                "replicas.min is {min} and replicas.target is 2: a set of two stands still when either fails, and so fails more \
                 often than one: use a target of {REPLICAS_SAFE}, or of 1"
            ));
        }
        if min <= target / 2 {
            return Err(format!(
                "replicas.min is {min} and replicas.target is {target}: min must be more than half of target, so that two \
                 parts of a set can never both go on: use a min of {} or more",
                target / 2 + 1
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sets_that_survive_a_failure_are_taken() {
        for (min, target) in [(1, 1), (2, 3), (3, 3), (3, 4), (3, 5), (4, 5), (4, 7), (5, 9)] {
            Replicas { min, target }.check(Level::Persisted).unwrap();
        }
        for (min, target, says) in [
            (1, 3, "use a min of 2 or more"),
            (2, 2, "stands still when either fails"),
            (1, 2, "stands still when either fails"),
            (2, 5, "use a min of 3 or more"),
            (4, 3, "min may not be above target"),
            (3, 6, "use a min of 4 or more"),
            (3, 7, "use a min of 4 or more"),
        ] {
            let refused = Replicas { min, target }.check(Level::Volatile).unwrap_err();
            assert!(refused.contains(says), "{min} {target}: {refused}");
        }
        assert!(Replicas { min: 3, target: 3 }.check(Level::None).unwrap_err().contains("kept by one node"));
    }

    #[test]
    fn the_least_that_goes_with_a_target_is_safe() {
        for target in (1..=REPLICAS_MAX).filter(|target| *target != 2) {
            Replicas { min: Replicas::min_default(target), target }.check(Level::Persisted).unwrap();
        }
    }
}
