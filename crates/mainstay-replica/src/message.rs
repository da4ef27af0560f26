//! What replicas of a set say to each other. One version byte, one kind byte, then fixed fields; the exact bytes are in
//! `docs/internals/replica.md`. Decoding never panics and never trusts a length. What follows the last field is skipped: a
//! later program may say more.

use bytes::{BufMut, Bytes, BytesMut};
use mainstay_core::format::PROGRAM;
use mainstay_core::time::Duration;
use mainstay_core::{ClusterId, Error, ErrorKind, NodeId, ReplicaId, Result};
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse};

use crate::command;
use crate::formats::MESSAGE;
use crate::options::Timing;
use crate::raft::{Entry, SnapshotMeta, Types, Vote};
use crate::wire::{self, Reader};

/// The kinds of requests.
mod request {
    pub(super) const APPEND: u8 = 0;
    pub(super) const VOTE: u8 = 1;
    pub(super) const PRE_VOTE: u8 = 2;
    pub(super) const TRANSFER: u8 = 3;
    pub(super) const SNAPSHOT_CHUNK: u8 = 4;
    pub(super) const SNAPSHOT_END: u8 = 5;
    pub(super) const JOIN: u8 = 6;
}

/// The kinds of answers.
mod answer {
    pub(super) const APPENDED: u8 = 0;
    pub(super) const APPENDED_UP_TO: u8 = 1;
    pub(super) const CONFLICT: u8 = 2;
    pub(super) const HIGHER_VOTE: u8 = 3;
    pub(super) const VOTE: u8 = 4;
    pub(super) const DONE: u8 = 5;
    pub(super) const SNAPSHOT: u8 = 6;
    pub(super) const WRONG_REPLICA: u8 = 7;
    pub(super) const NOT_PRIMARY: u8 = 8;
    pub(super) const FAILED: u8 = 9;
    pub(super) const REFUSED: u8 = 10;
    /// Since version 3; whoever asks in version 2 is told the reason as a failure.
    pub(super) const UNKNOWN_VERSION: u8 = 11;
}

/// The first version that has [`answer::UNKNOWN_VERSION`].
const VERSION_WITH_UNKNOWN: u8 = 3;

/// A request to a replica.
#[derive(Debug)]
pub(crate) enum Request {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<Types>),
    PreVote(VoteRequest<Types>),
    Transfer(TransferLeaderRequest<Types>),
    /// The next piece of a state; `number` counts from zero within `transfer`, and zero starts over.
    SnapshotChunk {
        transfer: u64,
        number: u64,
        chunk: Bytes,
    },
    /// All pieces were sent: put the state in force.
    SnapshotEnd {
        transfer: u64,
        chunks: u64,
        vote: Vote,
        meta: SnapshotMeta,
    },
    /// A new replica on a node asks to be taken in, instead of any older one on that node. It says by which timing it lives.
    Join {
        replica: ReplicaId,
        node: NodeId,
        timing: Timing,
    },
}

/// An answer to a [`Request`].
#[derive(Debug)]
pub(crate) enum Response {
    Append(AppendEntriesResponse<Types>),
    Vote(VoteResponse<Types>),
    Done,
    Snapshot(Vote),
    /// The replica that the request was meant for is not here (any more); this one is.
    WrongReplica(ReplicaId),
    /// Only the primary can do that; the node it may be on.
    NotPrimary(Option<NodeId>),
    /// The request was understood and could not be carried out.
    Failed(String),
    /// The sender does not belong here as it is, however often it asks.
    Refused(String),
    /// The request, or something in it, is of a version that the answerer does not read; it reads messages of these. Nothing was
    /// changed, and nothing has stopped.
    UnknownVersion {
        reason: String,
        oldest: u8,
        newest: u8,
    },
}

/// A request with the cluster that it comes from and the replica that it is meant for. A replica that was replaced must not
/// answer for its successor, and one that lost its data not for itself.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub cluster: ClusterId,
    pub to: Option<ReplicaId>,
    pub request: Request,
}

impl Envelope {
    pub(crate) fn encode(&self) -> Bytes {
        let mut buffer = BytesMut::with_capacity(128);
        buffer.put_u8(MESSAGE.written());
        buffer.put_u128_le(self.cluster.0);
        buffer.put_u8(self.to.is_some().into());
        buffer.put_u64_le(self.to.unwrap_or_default().0);
        match &self.request {
            Request::Append(append) => {
                buffer.put_u8(request::APPEND);
                put_append(&mut buffer, append);
            }
            Request::Vote(vote) => {
                buffer.put_u8(request::VOTE);
                put_vote_request(&mut buffer, vote);
            }
            Request::PreVote(vote) => {
                buffer.put_u8(request::PRE_VOTE);
                put_vote_request(&mut buffer, vote);
            }
            Request::Transfer(transfer) => {
                buffer.put_u8(request::TRANSFER);
                wire::put_vote(&mut buffer, transfer.from_leader());
                buffer.put_u64_le(*transfer.to_node_id());
                wire::put_optional_log_id(&mut buffer, transfer.last_log_id());
            }
            Request::SnapshotChunk { transfer, number, chunk } => {
                buffer.put_u8(request::SNAPSHOT_CHUNK);
                buffer.put_u64_le(*transfer);
                buffer.put_u64_le(*number);
                wire::put_bytes(&mut buffer, chunk);
            }
            Request::SnapshotEnd { transfer, chunks, vote, meta } => {
                buffer.put_u8(request::SNAPSHOT_END);
                buffer.put_u64_le(*transfer);
                buffer.put_u64_le(*chunks);
                wire::put_vote(&mut buffer, vote);
                wire::put_optional_log_id(&mut buffer, meta.last_log_id.as_ref());
                wire::put_stored_membership(&mut buffer, &meta.last_membership);
            }
            Request::Join { replica, node, timing } => {
                buffer.put_u8(request::JOIN);
                buffer.put_u64_le(replica.0);
                buffer.put_u64_le(node.0);
                put_duration(&mut buffer, timing.heartbeat);
                put_duration(&mut buffer, timing.election_timeout_min);
                put_duration(&mut buffer, timing.election_timeout_max);
            }
        }
        buffer.freeze()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self> {
        let mut reader = Reader::named(&MESSAGE, "request of a peer", bytes)?;
        let cluster = ClusterId(reader.u128()?);
        let addressed = reader.flag()?;
        let to = ReplicaId(reader.u64()?);
        let request = match reader.u8()? {
            request::APPEND => Request::Append(append(&mut reader)?),
            request::VOTE => Request::Vote(vote_request(&mut reader)?),
            request::PRE_VOTE => Request::PreVote(vote_request(&mut reader)?),
            request::TRANSFER => {
                Request::Transfer(TransferLeaderRequest::new(reader.vote()?, reader.u64()?, reader.optional_log_id()?))
            }
            request::SNAPSHOT_CHUNK => {
                Request::SnapshotChunk { transfer: reader.u64()?, number: reader.u64()?, chunk: reader.bytes()? }
            }
            request::SNAPSHOT_END => Request::SnapshotEnd {
                transfer: reader.u64()?,
                chunks: reader.u64()?,
                vote: reader.vote()?,
                meta: SnapshotMeta {
                    last_log_id: reader.optional_log_id()?,
                    last_membership: reader.stored_membership()?,
                },
            },
            request::JOIN => Request::Join {
                replica: ReplicaId(reader.u64()?),
                node: NodeId(reader.u64()?),
                timing: Timing {
                    heartbeat: Duration::from_nanos(reader.u64()?),
                    election_timeout_min: Duration::from_nanos(reader.u64()?),
                    election_timeout_max: Duration::from_nanos(reader.u64()?),
                },
            },
            other => return Err(unknown_kind("request", other)),
        };
        Ok(Self { cluster, to: addressed.then_some(to), request })
    }
}

impl Response {
    /// The bytes in a version, which is that of the request: whoever asks can read the answer.
    pub(crate) fn encode(&self, version: u8) -> Bytes {
        let mut buffer = BytesMut::with_capacity(64);
        buffer.put_u8(version);
        match self {
            Response::Append(AppendEntriesResponse::Success) => buffer.put_u8(answer::APPENDED),
            Response::Append(AppendEntriesResponse::PartialSuccess(id)) => {
                buffer.put_u8(answer::APPENDED_UP_TO);
                wire::put_optional_log_id(&mut buffer, id.as_ref());
            }
            Response::Append(AppendEntriesResponse::Conflict) => buffer.put_u8(answer::CONFLICT),
            Response::Append(AppendEntriesResponse::HigherVote(vote)) => {
                buffer.put_u8(answer::HIGHER_VOTE);
                wire::put_vote(&mut buffer, vote);
            }
            Response::Vote(vote) => {
                buffer.put_u8(answer::VOTE);
                wire::put_vote(&mut buffer, &vote.vote);
                buffer.put_u8(vote.vote_granted.into());
                wire::put_optional_log_id(&mut buffer, vote.last_log_id.as_ref());
            }
            Response::Done => buffer.put_u8(answer::DONE),
            Response::Snapshot(vote) => {
                buffer.put_u8(answer::SNAPSHOT);
                wire::put_vote(&mut buffer, vote);
            }
            Response::WrongReplica(here) => {
                buffer.put_u8(answer::WRONG_REPLICA);
                buffer.put_u64_le(here.0);
            }
            Response::NotPrimary(hint) => {
                buffer.put_u8(answer::NOT_PRIMARY);
                buffer.put_u8(hint.is_some().into());
                buffer.put_u64_le(hint.unwrap_or_default().0);
            }
            Response::UnknownVersion { reason, oldest, newest } if version >= VERSION_WITH_UNKNOWN => {
                buffer.put_u8(answer::UNKNOWN_VERSION);
                buffer.put_u8(*oldest);
                buffer.put_u8(*newest);
                wire::put_bytes(&mut buffer, reason.as_bytes());
            }
            Response::Failed(message) | Response::UnknownVersion { reason: message, .. } => {
                buffer.put_u8(answer::FAILED);
                wire::put_bytes(&mut buffer, message.as_bytes());
            }
            Response::Refused(message) => {
                buffer.put_u8(answer::REFUSED);
                wire::put_bytes(&mut buffer, message.as_bytes());
            }
        }
        buffer.freeze()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self> {
        let mut reader = Reader::named(&MESSAGE, "answer of a peer", bytes)?;
        let response = match reader.u8()? {
            answer::APPENDED => Response::Append(AppendEntriesResponse::Success),
            answer::APPENDED_UP_TO => {
                Response::Append(AppendEntriesResponse::PartialSuccess(reader.optional_log_id()?))
            }
            answer::CONFLICT => Response::Append(AppendEntriesResponse::Conflict),
            answer::HIGHER_VOTE => Response::Append(AppendEntriesResponse::HigherVote(reader.vote()?)),
            answer::VOTE => {
                let (vote, vote_granted, last_log_id) = (reader.vote()?, reader.flag()?, reader.optional_log_id()?);
                Response::Vote(VoteResponse { vote, vote_granted, last_log_id })
            }
            answer::DONE => Response::Done,
            answer::SNAPSHOT => Response::Snapshot(reader.vote()?),
            answer::WRONG_REPLICA => Response::WrongReplica(ReplicaId(reader.u64()?)),
            answer::NOT_PRIMARY => {
                let known = reader.flag()?;
                let node = NodeId(reader.u64()?);
                Response::NotPrimary(known.then_some(node))
            }
            answer::FAILED => Response::Failed(text(&mut reader)?),
            answer::REFUSED => Response::Refused(text(&mut reader)?),
            answer::UNKNOWN_VERSION => {
                Response::UnknownVersion { oldest: reader.u8()?, newest: reader.u8()?, reason: text(&mut reader)? }
            }
            other => return Err(unknown_kind("answer", other)),
        };
        Ok(response)
    }
}

impl Response {
    /// The answer to a request that could not be read.
    pub(crate) fn unread(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::UnknownVersion => {
                Self::UnknownVersion { reason: error.to_string(), oldest: MESSAGE.oldest(), newest: MESSAGE.newest() }
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The version to answer a request in: its own if this program writes that, otherwise the nearest that it writes. Whoever
/// cannot read that is told so by its own reader.
pub(crate) fn answer_version(request: &[u8]) -> u8 {
    let asked = request.first().copied().unwrap_or_else(|| MESSAGE.written());
    asked.clamp(MESSAGE.oldest(), MESSAGE.newest())
}

/// What is told of a request or an answer that only a later program knows.
fn unknown_kind(what: &str, kind: u8) -> Error {
    Error::new(
        ErrorKind::UnknownVersion,
        format!("{what} of a peer is of kind {kind}, which this program ({PROGRAM}) does not know: start a later one"),
    )
}

fn text(reader: &mut Reader) -> Result<String> {
    Ok(String::from_utf8_lossy(&reader.bytes()?).into_owned())
}

fn put_duration(buffer: &mut BytesMut, duration: Duration) {
    // Not that of five hundred years and more: it is cut off, and equal to no other that a node could live by.
    buffer.put_u64_le(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
}

fn put_append(buffer: &mut BytesMut, append: &AppendEntriesRequest<Types>) {
    wire::put_vote(buffer, &append.vote);
    wire::put_optional_log_id(buffer, append.prev_log_id.as_ref());
    wire::put_optional_log_id(buffer, append.leader_commit.as_ref());
    buffer.put_u32_le(append.entries.len() as u32);
    // The entries of an append are consecutive: one index says all.
    buffer.put_u64_le(append.entries.first().map_or(0, |entry| entry.log_id.index));
    for entry in &append.entries {
        wire::put_bytes(buffer, &wire::encode_entry(entry));
    }
}

fn append(reader: &mut Reader) -> Result<AppendEntriesRequest<Types>> {
    let vote = reader.vote()?;
    let prev_log_id = reader.optional_log_id()?;
    let leader_commit = reader.optional_log_id()?;
    let count = reader.u32()?;
    let first = reader.index()?;
    let mut entries: Vec<Entry> = Vec::new();
    for offset in 0..u64::from(count) {
        let index = first.checked_add(offset).ok_or_else(|| reader.bad("an index out of range"))?;
        let entry = wire::decode_entry(index, reader.bytes()?)?;
        // Taken into the log it would stop the replica when it is applied.
        if let EntryPayload::Normal(command) = &entry.payload {
            command::check_version(&command.0)?;
        }
        entries.push(entry);
    }
    if prev_log_id.is_some_and(|prev| !entries.is_empty() && prev.index.checked_add(1) != Some(first)) {
        return Err(reader.bad("entries that do not follow the one before"));
    }
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}

fn put_vote_request(buffer: &mut BytesMut, request: &VoteRequest<Types>) {
    wire::put_vote(buffer, &request.vote);
    wire::put_optional_log_id(buffer, request.last_log_id.as_ref());
    buffer.put_u8(request.leadership_transfer.into());
}

fn vote_request(reader: &mut Reader) -> Result<VoteRequest<Types>> {
    let mut request = VoteRequest::new(reader.vote()?, reader.optional_log_id()?);
    request.leadership_transfer = reader.flag()?;
    Ok(request)
}
