//! Is there one order of all reads and writes of a register that explains what every client was told?
//!
//! Every write has a value of its own, so that a read names the write it saw. For such histories the answer needs no search
//! (Gibbons and Korach, "Testing Shared Memories", 1997). Take a write together with the reads that saw it. If one of them had
//! ended before another began, the value must have been there all the time in between, without interruption: a *span*. If
//! not, there is a time during which all of them were under way, and any moment of it will do: a *window*. An order exists if
//! and only if no read ended before its write began, no two spans overlap, and no window lies within a span of another value.
//!
//! A compare-and-set that succeeded has seen one value and written the next with nothing in between. Values that replaced each
//! other in this way are one *chain*, with an order of its own that is looked at first; towards all others a chain is what a single
//! write is above: the operations on all of its values together make its span or window.
//!
//! It takes time in proportion to the sorting of the history, whatever the history is: nothing has to be bounded.

use std::collections::BTreeMap;
use std::fmt;

/// A moment of the history: calls and answers are numbered in the order in which they happened, each with a number of its own.
pub type Moment = u64;

/// What a register holds that was never written.
pub const NOTHING: u64 = 0;

/// A write of a value that no other write has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// What it wrote.
    pub value: u64,
    /// When it was called.
    pub called: Moment,
    /// The last moment at which it can have happened: that of its answer, or later, up to [`Moment::MAX`].
    pub ended: Moment,
    /// False for one that may not have happened at all.
    pub is_certain: bool,
}

/// A compare-and-set that found what it expected. One that found something else is a [`Read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    /// What it replaced.
    pub expected: u64,
    /// What it wrote: a value that no other write or swap has.
    pub value: u64,
    /// When it was called.
    pub called: Moment,
    /// As [`Write::ended`].
    pub ended: Moment,
    /// False for one of which it is not known whether it happened, or whether it found what it expected.
    pub is_certain: bool,
}

/// A read and what it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// What it saw.
    pub value: u64,
    /// When it was called.
    pub called: Moment,
    /// When it was answered.
    pub ended: Moment,
}

/// Why there is no such order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contradiction {
    /// A value was seen that was never written, or whose write was refused.
    NeverWritten {
        /// The value.
        value: u64,
    },
    /// A read had ended when the write that it saw began.
    ReadBeforeWritten {
        /// The value.
        value: u64,
    },
    /// Both values must have been there at the same moment.
    Both {
        /// The values, or the first ones of their chains.
        values: [u64; 2],
        /// That moment.
        at: Moment,
    },
    /// A value can only have been there while another was.
    Within {
        /// The value, or the first one of its chain.
        value: u64,
        /// The other one, likewise.
        outer: u64,
        /// The time during which it can have been there.
        from: Moment,
        /// Its end.
        to: Moment,
    },
    /// Two swaps replaced the same value: one of them was lost.
    ReplacedTwice {
        /// The value.
        value: u64,
        /// What both put in its place.
        by: [u64; 2],
    },
    /// A value was still there when another had replaced it.
    StillThere {
        /// A value of the chain, at or after the one that was seen too late.
        value: u64,
        /// What was there already.
        by: u64,
    },
    /// Swaps that replaced each other in a circle.
    Circle {
        /// One of their values.
        value: u64,
    },
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
            Self::ReplacedTwice { value, by: [one, other] } => {
                write!(f, "{value} was replaced twice, by {one} and by {other}: one of the two was lost")
            }
            Self::StillThere { value, by } => write!(f, "{value} was there after {by} had replaced it"),
            Self::Circle { value } => write!(f, "{value} was replaced by what it has itself replaced"),
        }
    }
}

/// A write or swap, and the reads that saw its value.
#[derive(Debug)]
struct Cluster {
    called: Moment,
    ended: Moment,
    is_certain: bool,
    /// What it replaced, if it is a swap.
    expected: Option<u64>,
    /// The first end and the last call of the reads, if there are any.
    reads: Option<(Moment, Moment)>,
}

/// Looks for an order of all operations on one register.
///
/// ```
/// use mainstay_sim::linearizability::{Contradiction, Read, Swap, Write, check};
///
/// let write = Write { value: 7, called: 1, ended: 2, is_certain: true };
/// let swap = |value, called, ended| Swap { expected: 7, value, called, ended, is_certain: true };
/// assert_eq!(check(&[write], &[Read { value: 8, called: 5, ended: 6 }], &[swap(8, 3, 4)]), Ok(()));
/// let lost = check(&[write], &[], &[swap(8, 3, 6), swap(9, 4, 5)]).unwrap_err();
/// assert_eq!(lost, Contradiction::ReplacedTwice { value: 7, by: [8, 9] });
/// ```
///
/// # Errors
/// Why there is none.
pub fn check(writes: &[Write], reads: &[Read], swaps: &[Swap]) -> Result<(), Contradiction> {
    let mut clusters = clusters(writes, swaps);
    for read in reads {
        let value = read.value;
        let seen = clusters.get_mut(&value).ok_or(Contradiction::NeverWritten { value })?;
        if read.ended < seen.called {
            return Err(Contradiction::ReadBeforeWritten { value });
        }
        let (first_end, last_call) = seen.reads.unwrap_or((read.ended, read.called));
        seen.reads = Some((first_end.min(read.ended), last_call.max(read.called)));
    }
    drop_what_has_not_happened(&mut clusters);
    check_zones(&chains(&clusters)?)
}

fn clusters(writes: &[Write], swaps: &[Swap]) -> BTreeMap<u64, Cluster> {
    let nothing = Write { value: NOTHING, called: 0, ended: 0, is_certain: true };
    let written = writes.iter().chain([&nothing]).map(|write| {
        let Write { value, called, ended, is_certain } = *write;
        (value, Cluster { called, ended, is_certain, expected: None, reads: None })
    });
    let swapped = swaps.iter().map(|swap| {
        let Swap { expected, value, called, ended, is_certain } = *swap;
        (value, Cluster { called, ended, is_certain, expected: Some(expected), reads: None })
    });
    written.chain(swapped).collect()
}

/// Drops what may not have happened and was seen neither by a read nor by a swap that has happened: that it has not happened
/// contradicts nothing.
fn drop_what_has_not_happened(clusters: &mut BTreeMap<u64, Cluster>) {
    let is_known = |cluster: &Cluster| cluster.is_certain || cluster.reads.is_some();
    let mut seen: Vec<u64> =
        clusters.values().filter(|cluster| is_known(cluster)).filter_map(|cluster| cluster.expected).collect();
    while let Some(value) = seen.pop() {
        if let Some(cluster) = clusters.get_mut(&value)
            && !is_known(cluster)
        {
            cluster.is_certain = true;
            seen.extend(cluster.expected);
        }
    }
    clusters.retain(|_, cluster| is_known(cluster));
}

/// All operations on the values of a chain, which begins with a plain write.
#[derive(Debug)]
struct Chain {
    first_value: u64,
    first_end: Moment,
    last_call: Moment,
    /// The value that the operation with the last call had to do with.
    last_called: u64,
}

impl Chain {
    /// Goes on with operations on a value that come after all before: none of them may have ended when one of those began.
    fn extend(&mut self, value: u64, first_end: Moment, last_call: Moment) -> Result<(), Contradiction> {
        if first_end < self.last_call {
            return Err(Contradiction::StillThere { value: self.last_called, by: value });
        }
        self.first_end = self.first_end.min(first_end);
        if last_call > self.last_call {
            (self.last_call, self.last_called) = (last_call, value);
        }
        Ok(())
    }
}

/// Follows the swaps from each plain write on, and looks at the order within each chain.
fn chains(clusters: &BTreeMap<u64, Cluster>) -> Result<Vec<Chain>, Contradiction> {
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for (by, cluster) in clusters {
        let Some(value) = cluster.expected else { continue };
        let seen = clusters.get(&value).ok_or(Contradiction::NeverWritten { value })?;
        if cluster.ended < seen.called {
            return Err(Contradiction::ReadBeforeWritten { value });
        }
        if let Some(other) = next.insert(value, *by) {
            return Err(Contradiction::ReplacedTwice { value, by: [other, *by] });
        }
    }
    let mut followed = 0;
    let mut chains = Vec::new();
    for (first_value, cluster) in clusters.iter().filter(|(_, cluster)| cluster.expected.is_none()) {
        let (first_end, last_call) = (cluster.ended, cluster.called);
        let mut chain = Chain { first_value: *first_value, first_end, last_call, last_called: *first_value };
        let mut at = Some((*first_value, cluster));
        while let Some((value, cluster)) = at {
            followed += 1;
            chain.extend(value, cluster.ended, cluster.called)?;
            if let Some((first_end, last_call)) = cluster.reads {
                chain.extend(value, first_end, last_call)?;
            }
            at = next.get(&value).and_then(|by| Some((*by, clusters.get(by)?)));
        }
        chains.push(chain);
    }
    if followed < clusters.len() {
        // What no plain write leads to leads back to itself.
        let is_circular = |value: u64| {
            let mut replaced = clusters.get(&value).and_then(|cluster| cluster.expected);
            // No way back is longer than all values together.
            for _ in 0..clusters.len() {
                let Some(before) = replaced.filter(|before| *before != value) else { break };
                replaced = clusters.get(&before).and_then(|cluster| cluster.expected);
            }
            replaced == Some(value)
        };
        let value = next.keys().copied().find(|value| is_circular(*value)).unwrap_or(NOTHING);
        return Err(Contradiction::Circle { value });
    }
    Ok(chains)
}

/// Looks for an order of the chains: no two spans overlap, and no window lies within a span.
fn check_zones(chains: &[Chain]) -> Result<(), Contradiction> {
    // By their beginning; as they do not overlap, that is also by their end.
    let mut spans: BTreeMap<Moment, (Moment, u64)> = BTreeMap::new();
    for chain in chains {
        if chain.first_end < chain.last_call {
            spans.insert(chain.first_end, (chain.last_call, chain.first_value));
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
    for chain in chains {
        let (from, to) = (chain.last_call, chain.first_end);
        if from <= to
            && let Some((_, (end, outer))) = spans.range(..from).next_back()
            && to < *end
        {
            return Err(Contradiction::Within { value: chain.first_value, outer: *outer, from, to });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
