//! Is there one order of all reads and writes of a register that explains what every client was told?
//!
//! Every write has a value of its own, so that a read names the write it saw. For such histories the answer needs no search
//! (Gibbons and Korach, "Testing Shared Memories", 1997). Take a write together with the reads that saw it. If one of them had
//! ended before another began, the value must have been there all the time in between, without interruption: a *span*. If
//! not, there is a time during which all of them were under way, and any moment of it will do: a *window*. An order exists if
//! and only if no read ended before its write began, no two spans overlap, and no window lies within a span of another value.
//!
//! It takes time in proportion to the sorting of the history, whatever the history is: nothing has to be bounded.

use std::collections::BTreeMap;
use std::fmt;

/// A moment of the history: calls and answers are numbered in the order in which they happened, each with a number of its own.
pub(crate) type Moment = u64;

/// What a register holds that was never written.
pub(crate) const NOTHING: u64 = 0;

/// A write of a value that no other write has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Write {
    pub value: u64,
    pub called: Moment,
    /// The last moment at which it can have happened: that of its answer, or later, up to [`Moment::MAX`].
    pub ended: Moment,
    /// False for one that may not have happened at all.
    pub is_certain: bool,
}

/// A read and what it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    pub value: u64,
    pub called: Moment,
    pub ended: Moment,
}

/// Why there is no such order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contradiction {
    /// A read saw a value that nobody has written, or that was refused.
    NeverWritten { value: u64 },
    /// A read had ended when the write that it saw began.
    ReadBeforeWritten { value: u64 },
    /// Both values must have been there at the same moment.
    Both { values: [u64; 2], at: Moment },
    /// A value can only have been there while another was.
    Within { value: u64, outer: u64, from: Moment, to: Moment },
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverWritten { value } => write!(f, "{value} was read and never written"),
            Self::ReadBeforeWritten { value } => write!(f, "{value} was read before it was written"),
            Self::Both { values: [one, other], at } => {
                write!(f, "both {one} and {other} must have been there at moment {at}")
            }
            Self::Within { value, outer, from, to } => {
                write!(f, "{value} was written between moments {from} and {to}, while {outer} was there")
            }
        }
    }
}

/// A write and the reads that saw it.
#[derive(Debug)]
struct Cluster {
    written_from: Moment,
    is_certain: bool,
    is_read: bool,
    first_end: Moment,
    last_call: Moment,
}

/// Looks for an order of all operations on one register.
///
/// # Errors
/// Why there is none.
pub(crate) fn check(writes: &[Write], reads: &[Read]) -> Result<(), Contradiction> {
    let cluster = |write: &Write| Cluster {
        written_from: write.called,
        is_certain: write.is_certain,
        is_read: false,
        first_end: write.ended,
        last_call: write.called,
    };
    let nothing = Write { value: NOTHING, called: 0, ended: 0, is_certain: true };
    let mut clusters: BTreeMap<u64, Cluster> =
        writes.iter().chain([&nothing]).map(|write| (write.value, cluster(write))).collect();
    for read in reads {
        let value = read.value;
        let seen = clusters.get_mut(&value).ok_or(Contradiction::NeverWritten { value })?;
        if read.ended < seen.written_from {
            return Err(Contradiction::ReadBeforeWritten { value });
        }
        seen.is_read = true;
        seen.first_end = seen.first_end.min(read.ended);
        seen.last_call = seen.last_call.max(read.called);
    }
    // What may not have happened and was never seen has not happened: that contradicts nothing.
    clusters.retain(|_, cluster| cluster.is_certain || cluster.is_read);

    // By their beginning; as they do not overlap, that is also by their end.
    let mut spans: BTreeMap<Moment, (Moment, u64)> = BTreeMap::new();
    for (value, cluster) in &clusters {
        if cluster.first_end < cluster.last_call {
            spans.insert(cluster.first_end, (cluster.last_call, *value));
        }
    }
    let mut before: Option<(Moment, u64)> = None;
    for (from, (to, value)) in &spans {
        if let Some((end, other)) = before
            && *from < end
        {
            return Err(Contradiction::Both { values: [other, *value], at: *from });
        }
        before = Some((*to, *value));
    }
    for (value, cluster) in &clusters {
        let (from, to) = (cluster.last_call, cluster.first_end);
        if from <= to
            && let Some((_, (end, outer))) = spans.range(..from).next_back()
            && to < *end
        {
            return Err(Contradiction::Within { value: *value, outer: *outer, from, to });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
