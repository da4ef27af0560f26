use mainstay_core::time::Duration;
use mainstay_core::{Error, Result, SetId};

/// How a replica behaves. The defaults suit a cluster in one data centre.
#[derive(Debug, Clone)]
pub struct ReplicaOptions {
    /// The rhythm of heartbeats and elections.
    pub timing: Timing,
    /// The limits of the committer.
    pub commit: CommitOptions,
    /// When the applied state is made durable and the log is cut.
    pub checkpoint: CheckpointOptions,
}

/// The rhythm of heartbeats and elections.
///
/// A primary that was acknowledged by a quorum may serve reads for [`lease`](Timing::lease) after it asked; a secondary
/// that heard of a primary votes for no other within `election_timeout_max`. The lease is the shorter of the two by a
/// factor of two, which is the allowance for clocks that run at different speeds.
///
/// All nodes have the same: a secondary whose `election_timeout_max` is shorter than the primary's lease would elect another
/// while that one still serves. A replica with another timing is refused when it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often an idle primary calls.
    pub heartbeat: Duration,
    /// The shortest silence after which a secondary stands for election.
    pub election_timeout_min: Duration,
    /// The longest silence after which a secondary stands for election.
    pub election_timeout_max: Duration,
}

impl Timing {
    /// For nodes in one data centre: a write is acknowledged again within two seconds after the primary was killed.
    pub const DEFAULT: Self = Self {
        heartbeat: Duration::from_millis(150),
        election_timeout_min: Duration::from_millis(500),
        election_timeout_max: Duration::from_millis(1000),
    };

    /// For nodes beside each other on a machine room's network that are not overloaded: within half a second, at several times the
    /// cost of an idle node.
    pub const FAST: Self = Self {
        heartbeat: Duration::from_millis(50),
        election_timeout_min: Duration::from_millis(100),
        election_timeout_max: Duration::from_millis(250),
    };

    /// For nodes far from each other: messages may take 200 ms each way.
    pub const WAN: Self = Self {
        heartbeat: Duration::from_millis(500),
        election_timeout_min: Duration::from_millis(2000),
        election_timeout_max: Duration::from_millis(4000),
    };

    /// How much later each voter stands for election than the one before it.
    pub fn rank_step(&self) -> Duration {
        self.election_timeout_max / 10
    }

    /// How long a primary may serve reads after a quorum acknowledged it.
    pub fn lease(&self) -> Duration {
        self.election_timeout_max / 2
    }
}

/// The limits of the committer: everything that waits is bounded.
#[derive(Debug, Clone)]
pub struct CommitOptions {
    /// The largest single commit; above it is `TooLarge`.
    pub commit_bytes_max: usize,
    /// The size to which commits are merged into one log entry.
    pub entry_bytes_max: usize,
    /// How many log entries are proposed before the first of them has an outcome.
    pub entries_in_flight_max: usize,
    /// How many commits may wait; above it is `Overloaded`.
    pub waiting_max: usize,
    /// How many bytes may wait; above it is `Overloaded`.
    pub waiting_bytes_max: usize,
}

/// How many sets have cycles of different lengths.
const STAGGERED_SETS: u16 = 8;

/// By which part of a cycle each is shorter than the one before it. A checkpoint should take less than that.
const STAGGER: u64 = 32;

/// When the applied state is made durable and the log is cut.
#[derive(Debug, Clone)]
pub struct CheckpointOptions {
    /// A checkpoint is due when so many bytes were applied since the last one, or up to a quarter less: sets that are written to
    /// alike take turns.
    pub bytes: u64,
    /// A checkpoint is due when so much time has passed, or up to a quarter less, and anything was applied.
    pub interval: Duration,
    /// Commits are refused as `Overloaded` while so many bytes wait for a checkpoint, and a secondary takes in no entries.
    pub unsaved_bytes_max: u64,
    /// So many bytes of log before the checkpoint are kept for replicas that lag behind. More is kept while one of them
    /// follows or is sent the state, but not more than the state is large (or `bytes`, if that is more).
    pub log_keep_bytes: u64,
}

impl CheckpointOptions {
    /// The same for one of many sets. Those that are written to alike would be due at the same moment again and again, and
    /// commits would wait for all of them at once; so each set has a cycle of its own length.
    pub(crate) fn staggered(self, set: SetId) -> Self {
        let place = set.number % STAGGERED_SETS;
        Self {
            bytes: self.bytes - self.bytes / STAGGER * u64::from(place),
            interval: self.interval - self.interval / STAGGER as u32 * u32::from(place),
            ..self
        }
    }
}

impl ReplicaOptions {
    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// `Invalid` with the names of both.
    pub fn check(&self) -> Result<()> {
        let CommitOptions { commit_bytes_max, waiting_bytes_max, .. } = self.commit;
        if commit_bytes_max > waiting_bytes_max {
            return Err(Error::invalid(format!(
                "commit.bytes_max is {commit_bytes_max} and commit.waiting_bytes_max is {waiting_bytes_max}, so that a large \
                 commit would be refused as soon as another waits: give commit.waiting_bytes_max at least as much"
            )));
        }
        let CheckpointOptions { bytes, unsaved_bytes_max, .. } = self.checkpoint;
        if bytes > unsaved_bytes_max {
            return Err(Error::invalid(format!(
                "checkpoint.bytes is {bytes} and checkpoint.unsaved_bytes_max is {unsaved_bytes_max}, so that commits would be \
                 refused before a checkpoint is due: give checkpoint.unsaved_bytes_max at least as much, better four times"
            )));
        }
        Ok(())
    }
}

impl Default for ReplicaOptions {
    fn default() -> Self {
        let checkpoint_bytes = 50 << 20;
        Self {
            timing: Timing::DEFAULT,
            commit: CommitOptions {
                commit_bytes_max: 16 << 20,
                entry_bytes_max: 1 << 20,
                entries_in_flight_max: 4,
                waiting_max: 16_384,
                waiting_bytes_max: 64 << 20,
            },
            checkpoint: CheckpointOptions {
                bytes: checkpoint_bytes,
                interval: Duration::from_secs(60),
                unsaved_bytes_max: 4 * checkpoint_bytes,
                log_keep_bytes: 8 << 20,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::Level;

    use super::*;

    #[test]
    fn no_two_sets_of_a_node_are_due_at_the_same_moments() {
        let asked = ReplicaOptions::default().checkpoint;
        let of = |number| asked.clone().staggered(SetId { level: Level::Persisted, number });
        assert_eq!((of(0).bytes, of(0).interval), (asked.bytes, asked.interval));
        for number in 1..STAGGERED_SETS {
            let (before, here) = (of(number - 1), of(number));
            assert!(here.bytes < before.bytes && here.interval < before.interval, "{here:?}");
            assert!(here.bytes * 4 >= asked.bytes * 3 && here.interval * 4 >= asked.interval * 3, "{here:?}");
            assert_eq!(here.unsaved_bytes_max, asked.unsaved_bytes_max);
        }
        assert_eq!(of(STAGGERED_SETS).bytes, asked.bytes);
        for bytes in [0, 1, 31, u64::MAX] {
            let few = CheckpointOptions { bytes, ..asked.clone() };
            assert!(few.staggered(SetId { level: Level::Persisted, number: 7 }).bytes <= bytes);
        }
    }
}
