use std::fmt;

/// One of the three connections that a pair of nodes has. What is on one of them never waits for what is on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Heartbeats, votes and leader transfer: small messages only, never fragmented.
    Heartbeat,
    /// Log entries, calls, replies and events, with weights.
    Data,
    /// Snapshots and backups, at a limited rate.
    Bulk,
}

/// What a message is for. It decides the connection, the share of it, and how much may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// What elections depend on.
    Heartbeat,
    /// Log entries of replica sets.
    Log,
    /// Answers to what came in on the data connection. The wire chooses it; it cannot be sent by itself.
    Reply,
    /// Calls of methods, and what operators ask for.
    Call,
    /// Events for subscribers.
    Event,
    /// Snapshots and backups.
    Bulk,
}

impl Lane {
    /// All of them.
    pub const ALL: [Lane; 3] = [Lane::Heartbeat, Lane::Data, Lane::Bulk];

    /// The largest payload of one frame: what another class waits for at most when its turn comes.
    pub const fn fragment_bytes_max(self) -> usize {
        match self {
            Lane::Heartbeat => 4 << 10,
            Lane::Data => 16 << 10,
            Lane::Bulk => 64 << 10,
        }
    }

    /// The class of an answer to what came in on this connection.
    pub(crate) const fn reply_class(self) -> Class {
        match self {
            Lane::Heartbeat => Class::Heartbeat,
            Lane::Data => Class::Reply,
            Lane::Bulk => Class::Bulk,
        }
    }

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 6;

    /// All of them.
    pub const ALL: [Class; Class::COUNT] =
        [Class::Heartbeat, Class::Log, Class::Reply, Class::Call, Class::Event, Class::Bulk];

    /// The connection that it travels on.
    pub const fn lane(self) -> Lane {
        match self {
            Class::Heartbeat => Lane::Heartbeat,
            Class::Log | Class::Reply | Class::Call | Class::Event => Lane::Data,
            Class::Bulk => Lane::Bulk,
        }
    }

    /// Its share of a busy connection, relative to the others there.
    pub const fn weight(self) -> u64 {
        match self {
            Class::Heartbeat | Class::Log | Class::Bulk => 8,
            Class::Reply => 4,
            Class::Call => 2,
            Class::Event => 1,
        }
    }

    /// The largest message; above it is `TooLarge`.
    pub const fn message_bytes_max(self) -> usize {
        match self {
            Class::Heartbeat => Lane::Heartbeat.fragment_bytes_max(),
            Class::Log => 32 << 20,
            Class::Reply | Class::Call => 16 << 20,
            Class::Event => 1 << 20,
            Class::Bulk => 4 << 20,
        }
    }

    /// How many messages of the class are sent at once, fragment by fragment in turn. The order of messages is kept where it
    /// is 1. Elsewhere a small message is not held up by a large one in front of it.
    pub const fn interleaved_max(self) -> usize {
        match self {
            Class::Reply | Class::Call => 8,
            Class::Heartbeat | Class::Log | Class::Event | Class::Bulk => 1,
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lane::Heartbeat => "heartbeat",
            Lane::Data => "data",
            Lane::Bulk => "bulk",
        })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Heartbeat => "heartbeat",
            Class::Log => "log",
            Class::Reply => "reply",
            Class::Call => "call",
            Class::Event => "event",
            Class::Bulk => "bulk",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_they_are_written() {
        for class in Class::ALL {
            assert_eq!(Class::from_code(class.code()), Some(class));
            assert_eq!(Class::ALL[class.index()], class);
        }
        for lane in Lane::ALL {
            assert_eq!(Lane::from_code(lane.code()), Some(lane));
        }
        assert_eq!((Class::from_code(6), Lane::from_code(3)), (None, None));
    }

    #[test]
    fn what_is_urgent_has_the_larger_share() {
        let shares = [Class::Log, Class::Reply, Class::Call, Class::Event].map(Class::weight);
        assert!(shares.is_sorted_by(|a, b| a > b));
    }
}
