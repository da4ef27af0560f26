//! What a request must be before openraft sees it.
//!
//! Openraft takes for granted that whoever speaks to it follows its protocol, and panics where it notices that this is not so.
//! What no replica can have sent that follows it is refused here, and changes nothing.

use mainstay_core::{Error, ReplicaId, Result};
use openraft::raft::AppendEntriesRequest;

use crate::message::Request;
use crate::raft::{LogId, SnapshotMeta, Types, Vote};

/// Refuses what nobody can have sent to this replica by the protocol. `committed` is the last entry that it knows to be
/// committed.
pub(crate) fn check(me: ReplicaId, request: &Request, committed: Option<LogId>) -> Result<()> {
    match request {
        Request::Append(append) => check_append(me, append, committed),
        Request::SnapshotEnd { vote, meta, .. } => check_snapshot(me, vote, meta, committed),
        Request::Vote(request) | Request::PreVote(request) => check_candidate(me, &request.vote),
        Request::Transfer(_) | Request::SnapshotChunk { .. } | Request::Join { .. } => Ok(()),
    }
}

fn check_append(me: ReplicaId, append: &AppendEntriesRequest<Types>, committed: Option<LogId>) -> Result<()> {
    check_primary(me, &append.vote)?;
    let first = append.prev_log_id.map_or(0, |prev| prev.index + 1);
    if append.entries.first().is_some_and(|entry| entry.log_id.index != first) {
        return Err(refused(format!("entries that do not follow the one before: {first} was expected")));
    }
    let entries = append.entries.iter().map(|entry| entry.log_id);
    if !append.prev_log_id.into_iter().chain(entries.clone()).is_sorted() {
        return Err(refused("entries of falling epochs"));
    }
    if let Some(last) = append.prev_log_id.into_iter().chain(entries.clone()).last() {
        check_not_newer(last, &append.vote)?;
    }
    append.prev_log_id.into_iter().chain(entries).try_for_each(|id| check_agrees(id, committed))
}

fn check_snapshot(me: ReplicaId, vote: &Vote, meta: &SnapshotMeta, committed: Option<LogId>) -> Result<()> {
    check_primary(me, vote)?;
    meta.last_log_id.map_or(Ok(()), |last| {
        check_not_newer(last, vote)?;
        check_agrees(last, committed)
    })
}

/// Entries and states come from a primary alone, and never from oneself.
fn check_primary(me: ReplicaId, vote: &Vote) -> Result<()> {
    if !vote.committed {
        return Err(refused("entries or a state of a replica that was not elected"));
    }
    check_is_another(me, vote)
}

/// Whoever stands for election was not elected yet, and is another.
fn check_candidate(me: ReplicaId, vote: &Vote) -> Result<()> {
    if vote.committed {
        return Err(refused("a replica that stands for election and was elected already"));
    }
    check_is_another(me, vote)
}

fn check_is_another(me: ReplicaId, vote: &Vote) -> Result<()> {
    if vote.leader_id.voted_for == me.0 { Err(refused("this replica as who sent it")) } else { Ok(()) }
}

/// A primary has nothing of epochs after its own.
fn check_not_newer(id: LogId, vote: &Vote) -> Result<()> {
    if id.leader_id.term > vote.leader_id.term { Err(refused("entries of an epoch after its own")) } else { Ok(()) }
}

/// What is committed stays as it is, and was written in no later epoch than what comes after it.
fn check_agrees(id: LogId, committed: Option<LogId>) -> Result<()> {
    match committed {
        Some(committed)
            if (id.index <= committed.index && id > committed) || (id.index == committed.index && id != committed) =>
        {
            Err(refused(format!("entry {id}, which contradicts {committed}, which is committed")))
        }
        _ => Ok(()),
    }
}

fn refused(what: impl std::fmt::Display) -> Error {
    Error::invalid(format!("no replica of this set can have sent this request: it has {what}"))
}
