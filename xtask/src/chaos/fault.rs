use std::fmt;

use clap::ValueEnum;

/// What can be done to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Fault {
    /// Its process is killed, and started again
    Kill,
    /// Its process is stopped, and continued
    Pause,
    /// It can neither send to others nor hear them
    Cut,
    /// It cannot send to others, or cannot hear them
    CutOneWay,
    /// It is cut off and connected again, several times a second
    Flap,
    /// What it sends arrives late
    Delay,
    /// Part of what it sends is lost
    Loss,
    /// Its disk has no room left
    DiskFull,
}

impl Fault {
    /// All of them.
    pub(crate) const ALL: [Fault; 8] = [
        Fault::Kill,
        Fault::Pause,
        Fault::Cut,
        Fault::CutOneWay,
        Fault::Flap,
        Fault::Delay,
        Fault::Loss,
        Fault::DiskFull,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No variant is skipped, so every one has a name.
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
