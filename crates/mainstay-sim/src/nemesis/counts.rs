use std::fmt;
use std::ops::AddAssign;

use mainstay_store::disk::sim::DiskOp;

/// How often what was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes killed; one that was down already cannot be.
    pub crashes: Tally,
    /// Disks whose power went in the midst of something; only what a running node does can be cut short.
    pub power_losses: Tally,
    /// Nodes whose power went again while they started; one that was up before that is not counted as done.
    pub failed_starts: Tally,
    /// Operations of disks that failed, once, and the process was restarted alone.
    pub disk_faults: DiskFaults,
    /// Cuts and spells of bad network.
    pub network_troubles: u64,
    /// Cuts of one direction alone; they are network troubles, too.
    pub one_way_cuts: u64,
    /// Spells of bad network in which messages come seconds late; they are network troubles, too.
    pub late_spells: u64,
    /// Primaries that were cut off just when all who had heard of them restarted, but for one.
    pub usurpations: Tally,
    /// Checkpoints made out of turn.
    pub checkpoints: Tally,
    /// Members added.
    pub additions: Tally,
    /// Members removed.
    pub removals: Tally,
    /// Members that were removed and went on running; they are removals, too.
    pub outcasts: u64,
    /// Removals whose primary crashed soon after it had begun.
    pub removals_cut_short: Tally,
    /// Primaries that handed over.
    pub hand_overs: Tally,
    /// Primaries that handed over to a member while it was being removed.
    pub hand_overs_to_leavers: Tally,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.power_losses += other.power_losses;
        self.failed_starts += other.failed_starts;
        self.disk_faults += other.disk_faults;
        self.network_troubles += other.network_troubles;
        self.one_way_cuts += other.one_way_cuts;
        self.late_spells += other.late_spells;
        self.usurpations += other.usurpations;
        self.checkpoints += other.checkpoints;
        self.additions += other.additions;
        self.removals += other.removals;
        self.outcasts += other.outcasts;
        self.removals_cut_short += other.removals_cut_short;
        self.hand_overs += other.hand_overs;
        self.hand_overs_to_leavers += other.hand_overs_to_leavers;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { crashes, power_losses, failed_starts, disk_faults, network_troubles, one_way_cuts, .. } = self;
        let Self { late_spells, usurpations, checkpoints, additions, removals, outcasts, .. } = self;
        let Self { removals_cut_short, hand_overs, hand_overs_to_leavers, .. } = self;
        write!(f, "{crashes} crashes, {power_losses} losses of power, {failed_starts} while starting, ")?;
        write!(f, "{} faults of disks, {usurpations} usurpations, ", disk_faults.total())?;
        write!(f, "{hand_overs} hand-overs, {hand_overs_to_leavers} to who leaves, ")?;
        write!(f, "{additions} members added, {removals} removed, {removals_cut_short} cut short, ")?;
        write!(f, "{checkpoints} checkpoints; {outcasts} removed members lived on; ")?;
        write!(
            f,
            "{network_troubles} network troubles, {one_way_cuts} of them one way, {late_spells} with late messages"
        )
    }
}

/// How often something was tried, and how often it succeeded: only that puts anything to the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often it was tried.
    pub tried: u64,
    /// How often it succeeded.
    pub done: u64,
}

impl Tally {
    pub(super) fn end(&mut self, succeeded: bool) {
        self.done += u64::from(succeeded);
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.tried += other.tried;
        self.done += other.done;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.done, self.tried)
    }
}

/// How often each operation of a disk was made to fail, and how often it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskFaults([Tally; DiskOp::ALL.len()]);

impl DiskFaults {
    /// Those of one operation.
    pub fn of(&self, op: DiskOp) -> Tally {
        Self::number(op).map_or(Tally::default(), |number| self.0[number])
    }

    /// All of them together.
    pub fn total(&self) -> Tally {
        self.0.iter().fold(Tally::default(), |mut total, tally| {
            total += *tally;
            total
        })
    }

    pub(super) fn note(&mut self, op: DiskOp, note: impl FnOnce(&mut Tally)) {
        if let Some(number) = Self::number(op) {
            note(&mut self.0[number]);
        }
    }

    fn number(op: DiskOp) -> Option<usize> {
        DiskOp::ALL.iter().position(|other| *other == op)
    }
}

impl fmt::Display for DiskFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (op, tally)) in DiskOp::ALL.iter().zip(&self.0).enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{tally} {op:?}")?;
        }
        Ok(())
    }
}

impl AddAssign for DiskFaults {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
