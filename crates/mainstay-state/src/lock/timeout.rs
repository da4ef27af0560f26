use std::error::Error as StdError;
use std::fmt::{self, Write as _};

use mainstay_core::time::{Duration, Instant};
use mainstay_core::{Error, ErrorKind};

use super::entry::Entry;
use super::queue::Place;
use super::request::Request;
use super::wait::{LockWait, WaitsFor};
use super::{LockMode, TransactionId};

/// How many holders, and how many of those ahead in the queue, an error names. The rest is counted.
const NAMED_MAX: usize = 8;

/// A lock that was not granted within its time limit. It is the cause, by [`source`](StdError::source), of an error
/// of kind [`Timeout`](ErrorKind::Timeout).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockTimeout {
    /// What was waited for. Of those in the way it names the first few.
    pub wait: LockWait,
    /// The time limit.
    pub limit: Duration,
    /// The first few of those who held the key when the time was over, the strongest mode first.
    pub holders: Vec<LockHolder>,
    /// How many held it in all.
    pub holders_total: usize,
    /// How many were ahead in the queue.
    pub ahead_total: usize,
}

/// A transaction that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// Who holds it.
    pub transaction: TransactionId,
    /// The mode in which it does.
    pub mode: LockMode,
    /// For how long it has held the key, in this mode or a weaker one.
    pub held_for: Duration,
}

impl LockTimeout {
    /// What is in the way of a request: of one that waits at `place`, or of one that would be the next to wait. It is
    /// called while a part of the table is locked, and gets the name of the resource later.
    pub(super) fn new(entry: &Entry, request: &Request, place: Option<Place>, limit: Duration, now: Instant) -> Self {
        let Request { id, mode, .. } = *request;
        let place = place.unwrap_or(Place::new(u64::MAX, request.former));
        let others = || entry.holders.iter().filter(|(holder, _)| holder.id != id);
        let holders = others().take(NAMED_MAX).map(|(holder, mode)| {
            let held_for = now.saturating_duration_since(holder.since);
            LockHolder { transaction: holder.id, mode, held_for }
        });
        let ahead = || entry.queue.iter().flat_map(|queue| queue.ahead_of(place));
        let mut waits_for: Vec<WaitsFor> = entry
            .holders
            .in_the_way_of(id, mode)
            .take(NAMED_MAX)
            .map(|(holder, mode)| WaitsFor::Holder { transaction: holder.id, mode })
            .collect();
        waits_for.extend(
            ahead().take(NAMED_MAX).map(|waiter| WaitsFor::Ahead { transaction: waiter.id, mode: waiter.mode }),
        );
        Self {
            holders: holders.collect(),
            holders_total: others().count(),
            ahead_total: ahead().count(),
            wait: LockWait { transaction: id, resource: String::new(), mode, waits_for },
            limit,
        }
    }

    pub(super) fn into_error(mut self, resource: String) -> Error {
        self.wait.resource = resource;
        let LockWait { transaction, resource, mode, waits_for } = &self.wait;
        let mut message = if self.limit.is_zero() {
            format!("{transaction} cannot have {resource} in {mode} mode without waiting")
        } else {
            format!("{transaction} did not get {resource} in {mode} mode within {:?}", self.limit)
        };
        let holders = self.holders.iter().map(LockHolder::to_string);
        list(&mut message, "held by", holders, self.holders_total);
        let ahead = waits_for.iter().filter_map(|blocker| match blocker {
            WaitsFor::Ahead { transaction, mode } => Some(format!("{transaction} ({mode})")),
            WaitsFor::Holder { .. } => None,
        });
        list(&mut message, "waiting behind", ahead, self.ahead_total);
        message.push_str(": abort it and run it again, let transactions end sooner, or set a longer time limit");
        Error::new(ErrorKind::Timeout, message).with_source(self)
    }
}

/// Adds a list to a message, with the number of those that are not named.
fn list(message: &mut String, title: &str, named: impl Iterator<Item = String>, total: usize) {
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        return;
    }
    // Writing to a string does not fail.
    let _ = write!(message, "; {title} {}", named.join(", "));
    if total > named.len() {
        let _ = write!(message, " and {} more", total - named.len());
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, for ", self.transaction, self.mode)?;
        // Nobody decides anything by the nanosecond.
        match u64::try_from(self.held_for.as_millis()).unwrap_or(u64::MAX) {
            0 => f.write_str("less than 1ms)"),
            millis => write!(f, "{:?})", Duration::from_millis(millis)),
        }
    }
}

impl fmt::Display for LockTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} others hold the lock, {} wait ahead", self.holders_total, self.ahead_total)
    }
}

impl StdError for LockTimeout {}
