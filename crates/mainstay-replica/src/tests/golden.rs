//! What is written has the bytes that are kept for its version, and what earlier versions wrote is read.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf as _, BufMut as _, Bytes};
use mainstay_core::format::golden::{Golden, damaged, longer};
use mainstay_core::time::Duration;
use mainstay_core::{ClusterId, Epoch, ErrorKind, NodeId, ReplicaId};
use mainstay_store::state::{Mark, WriteBatch};
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse};

use crate::command::{CommandBuilder, ParsedCommand};
use crate::formats::{COMMAND, COMPACTION_MARK, HARD_STATE, LOG_ENTRY, LOG_OWNER, MESSAGE, STATE_MARK};
use crate::log_owner::LogOwner;
use crate::log_storage::{decode_mark, decode_vote, encode_mark, encode_vote};
use crate::message::{Envelope, Request, Response, answer_version};
use crate::options::Timing;
use crate::raft::{self, Command, Entry, Member, Membership, SnapshotMeta, StoredMembership};
use crate::state_machine::Position;
use crate::wire;

fn golden() -> Golden {
    Golden::of(env!("CARGO_MANIFEST_DIR"))
}

/// Several as one file: each behind its length.
fn joined(all: &[Bytes]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for one in all {
        bytes.put_u32_le(one.len() as u32);
        bytes.put_slice(one);
    }
    bytes
}

fn split(joined: Vec<u8>) -> Vec<Bytes> {
    let mut rest = Bytes::from(joined);
    let mut all = Vec::new();
    while !rest.is_empty() {
        let len = rest.get_u32_le() as usize;
        all.push(rest.split_to(len));
    }
    all
}

fn command() -> Bytes {
    let mut first = WriteBatch::with_prefix(b"p");
    first.put(b"a", b"1").delete(b"b").delete_range(b"c", Some(b"d"));
    let mut second = WriteBatch::new();
    second.add(b"n", -1).put_stamped(b"q", b"0", b"x").note(b"note");
    let mut builder = CommandBuilder::new(Epoch(7), 16);
    builder.push([first.as_bytes()].into_iter());
    builder.push([second.as_bytes(), first.as_bytes()].into_iter());
    builder.finish()
}

fn membership() -> Membership {
    let config = vec![BTreeSet::from([11, 12]), BTreeSet::from([12, 13])];
    let nodes = (11..15).map(|id| (id, Member { node: NodeId(id - 10) })).collect::<BTreeMap<_, _>>();
    Membership::new(config, nodes).unwrap()
}

fn entries() -> Vec<Entry> {
    let payloads =
        [EntryPayload::Blank, EntryPayload::Normal(Command(command())), EntryPayload::Membership(membership())];
    (9..).zip(payloads).map(|(index, payload)| Entry { log_id: raft::log_id(7, index), payload }).collect()
}

fn stored_membership() -> StoredMembership {
    StoredMembership::new(Some(raft::log_id(3, 8)), membership())
}

fn requests() -> Vec<Bytes> {
    let vote = raft::vote(7, 12, true);
    let last = Some(raft::log_id(7, 8));
    let mut ordered = VoteRequest::new(raft::vote(8, 13, false), last);
    ordered.leadership_transfer = true;
    let second = Duration::from_secs(1);
    let timing = Timing { heartbeat: second, election_timeout_min: 2 * second, election_timeout_max: 3 * second };
    let requests = [
        Request::Append(AppendEntriesRequest { vote, prev_log_id: last, entries: entries(), leader_commit: last }),
        Request::Append(AppendEntriesRequest { vote, prev_log_id: None, entries: Vec::new(), leader_commit: None }),
        Request::Vote(ordered),
        Request::PreVote(VoteRequest::new(raft::vote(8, 13, false), None)),
        Request::Transfer(TransferLeaderRequest::new(vote, 13, last)),
        Request::SnapshotChunk { transfer: 5, number: 6, chunk: Bytes::from_static(b"chunk") },
        Request::SnapshotEnd {
            transfer: 5,
            chunks: 7,
            vote,
            meta: SnapshotMeta { last_log_id: last, last_membership: stored_membership() },
        },
        Request::Join { replica: ReplicaId(14), node: NodeId(4), timing },
    ];
    let envelopes = requests.into_iter().map(|request| {
        let to = (!matches!(request, Request::Join { .. })).then_some(ReplicaId(11));
        Envelope { cluster: ClusterId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10), to, request }
    });
    envelopes.map(|envelope| envelope.encode()).collect()
}

fn answers() -> Vec<Response> {
    let (vote, last) = (raft::vote(7, 12, true), Some(raft::log_id(7, 8)));
    vec![
        Response::Append(AppendEntriesResponse::Success),
        Response::Append(AppendEntriesResponse::PartialSuccess(last)),
        Response::Append(AppendEntriesResponse::Conflict),
        Response::Append(AppendEntriesResponse::HigherVote(vote)),
        Response::Vote(VoteResponse::new(vote, last, true)),
        Response::Done,
        Response::Snapshot(vote),
        Response::WrongReplica(ReplicaId(15)),
        Response::NotPrimary(Some(NodeId(2))),
        Response::NotPrimary(None),
        Response::Failed("failed".to_owned()),
        Response::Refused("refused".to_owned()),
        Response::UnknownVersion { reason: "unknown".to_owned(), oldest: 2, newest: 3 },
    ]
}

fn encoded(answers: &[Response], version: u8) -> Vec<Bytes> {
    answers.iter().map(|answer| answer.encode(version)).collect()
}

#[test]
fn golden_log_entries_are_what_is_written() {
    let written: Vec<Bytes> = entries().iter().map(wire::encode_entry).collect();
    golden().check("log-entry", &LOG_ENTRY, &joined(&written));
    golden().check("command", &COMMAND, &command());
    golden().check("hard-state", &HARD_STATE, &encode_vote(&raft::vote(7, 12, true)));
    golden().check("log-owner", &LOG_OWNER, &LogOwner { node: NodeId(12), replica: ReplicaId(15) }.encode());
    golden().check("compaction-mark", &COMPACTION_MARK, &encode_mark(&raft::log_id(7, 8)));
    let position = Position { applied: Some(raft::log_id(7, 8)), membership: stored_membership() };
    golden().check("state-mark", &STATE_MARK, &position.note(7));
}

#[test]
fn golden_messages_are_what_is_written() {
    golden().check("request", &MESSAGE, &joined(&requests()));
    for version in MESSAGE.oldest()..=MESSAGE.newest() {
        golden().check_version("answer", &MESSAGE, version, &joined(&encoded(&answers(), version)));
    }
}

#[test]
fn golden_log_entries_of_every_version_are_read() {
    for version in LOG_ENTRY.oldest()..=LOG_ENTRY.newest() {
        let read = split(golden().read("log-entry", version));
        let read: Vec<Entry> =
            (9..).zip(read).map(|(index, bytes)| wire::decode_entry(index, bytes).unwrap()).collect();
        assert_eq!(read, entries());
    }
    let bytes = golden().read("command", 1);
    let parsed = ParsedCommand::parse(&bytes).unwrap();
    assert_eq!((parsed.epoch, parsed.writes(1).count()), (Epoch(7), 9));
    assert_eq!(decode_vote(golden().read("hard-state", 1).into()).unwrap(), raft::vote(7, 12, true));
    let owner = LogOwner::decode(golden().read("log-owner", 1).into()).unwrap();
    assert_eq!(owner, LogOwner { node: NodeId(12), replica: ReplicaId(15) });
    assert_eq!(decode_mark(golden().read("compaction-mark", 1).into()).unwrap(), raft::log_id(7, 8));
    let mark = Mark { index: 9, note: golden().read("state-mark", 1).into() };
    let position = Position { applied: Some(raft::log_id(7, 8)), membership: stored_membership() };
    assert_eq!(Position::from_mark(&mark).unwrap(), position);
}

#[test]
fn golden_messages_of_every_version_are_read() {
    for version in MESSAGE.oldest()..=MESSAGE.newest() {
        for (bytes, expected) in split(golden().read("request", version)).into_iter().zip(requests()) {
            assert_eq!(bytes[0], version);
            let read = Envelope::decode(bytes.clone()).unwrap();
            assert_eq!(read.encode(), expected);
            // What a later program says behind it is skipped.
            assert_eq!(Envelope::decode(longer(&bytes).into()).unwrap().encode(), expected);
        }
        for bytes in split(golden().read("answer", version)) {
            assert_eq!(Response::decode(bytes.clone()).unwrap().encode(version), bytes);
            assert_eq!(Response::decode(longer(&bytes).into()).unwrap().encode(version), bytes);
        }
    }
}

#[test]
fn whoever_asks_in_version_2_is_told_of_an_unknown_version_as_a_failure() {
    let told = Response::decode(answers().pop().unwrap().encode(2)).unwrap();
    assert!(matches!(&told, Response::Failed(why) if why == "unknown"), "{told:?}");
    for (asked, answered) in [(0, 2), (1, 2), (2, 2), (3, 3), (4, 3), (255, 3)] {
        assert_eq!(answer_version(&[asked, 0]), answered);
    }
    assert_eq!(answer_version(&[]), MESSAGE.written());
}

#[test]
fn what_must_be_understood_has_nothing_behind_it() {
    let corrupt = |error: mainstay_core::Error| assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let all = entries();
    for entry in [&all[0], &all[2]] {
        corrupt(wire::decode_entry(9, longer(&wire::encode_entry(entry)).into()).unwrap_err());
    }
    corrupt(ParsedCommand::parse(&longer(&command())).unwrap_err());
    corrupt(decode_vote(longer(&encode_vote(&raft::vote(7, 12, true))).into()).unwrap_err());
    corrupt(decode_mark(longer(&encode_mark(&raft::log_id(7, 8))).into()).unwrap_err());
    // A mark says where a state is; what a later program says of it beside that can be skipped.
    let note = longer(&Position::default().note(7));
    assert_eq!(Position::from_mark(&Mark { index: 9, note: note.into() }).unwrap().applied, Some(raft::log_id(7, 8)));
}

#[test]
fn an_append_with_a_command_of_a_later_program_is_refused_before_it_is_in_the_log() {
    let mut later = command().to_vec();
    later[0] = COMMAND.newest() + 1;
    let entry = Entry { log_id: raft::log_id(7, 9), payload: EntryPayload::Normal(Command(later.into())) };
    let append = AppendEntriesRequest {
        vote: raft::vote(7, 12, true),
        prev_log_id: Some(raft::log_id(7, 8)),
        entries: vec![entry],
        leader_commit: None,
    };
    let envelope = Envelope { cluster: ClusterId(1), to: Some(ReplicaId(11)), request: Request::Append(append) };
    let error = Envelope::decode(envelope.encode()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownVersion);
    assert!(error.to_string().starts_with("command has format version 2, and this program ("), "{error}");
}

/// The node log, the store and the transport have the checksums: here damage need not be seen, and must not do harm.
#[test]
fn no_damage_makes_a_decoder_panic() {
    let is_told = |kind| assert!(matches!(kind, ErrorKind::Corrupt | ErrorKind::UnknownVersion), "{kind:?}");
    for bytes in requests() {
        for (_, bytes) in damaged(&bytes) {
            Envelope::decode(bytes.into()).map_or_else(|error| is_told(error.kind()), drop);
        }
        for len in 0..bytes.len() {
            Envelope::decode(bytes.slice(..len)).expect_err("cut off");
        }
    }
    for bytes in encoded(&answers(), MESSAGE.written()) {
        for (_, bytes) in damaged(&bytes) {
            Response::decode(bytes.into()).map_or_else(|error| is_told(error.kind()), drop);
        }
    }
    for entry in entries() {
        for (_, bytes) in damaged(&wire::encode_entry(&entry)) {
            wire::decode_entry(9, bytes.into()).map_or_else(|error| is_told(error.kind()), drop);
        }
    }
    for (_, bytes) in damaged(&command()) {
        ParsedCommand::parse(&bytes).map_or_else(|error| is_told(error.kind()), drop);
    }
    let position = Position { applied: Some(raft::log_id(7, 8)), membership: stored_membership() };
    for (_, bytes) in damaged(&position.note(7)) {
        Position::from_mark(&Mark { index: 9, note: bytes.into() }).map_or_else(|error| is_told(error.kind()), drop);
    }
}
