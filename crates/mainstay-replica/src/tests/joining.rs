//! Who joins does not go on for ever when nothing comes of it.

use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, Level, NodeId, ReplicaId, SetId, task};
use mainstay_store::log::MemoryLog;
use mainstay_store::state::{MemoryStore, StateStore as _};
use openraft::raft::AppendEntriesRequest;

use crate::formats::MESSAGE;
use crate::message::{Envelope, Request, Response};
use crate::options::ReplicaOptions;
use crate::raft::{Entry, Types, log_id, vote};
use crate::replica::{Identity, Replica};
use crate::tests::CLUSTER;
use crate::transport::{Answer, Traffic, Transport};

const ME: ReplicaId = ReplicaId(2);

/// A primary that promises to take everybody in.
#[derive(Debug)]
struct Promises;

impl Transport for Promises {
    fn call(&self, _: NodeId, _: SetId, _: Traffic, _: Bytes) -> Answer {
        Box::pin(async { Ok(Response::Done.encode(MESSAGE.written())) })
    }
}

async fn start() -> Replica {
    let identity = Identity {
        cluster: CLUSTER,
        set: SetId { level: Level::Volatile, number: 0 },
        replica: ME,
        node: NodeId(2),
        data_loss: 0,
    };
    let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
    Replica::start(identity, ReplicaOptions::default(), log, store, Arc::new(Promises)).await.unwrap()
}

/// What a primary sends: a heartbeat, or one entry.
async fn feed(replica: &Replica, entry: Option<u64>) {
    let before = entry.and_then(|index| index.checked_sub(1)).map(|index| log_id(1, index));
    let append: AppendEntriesRequest<Types> = AppendEntriesRequest {
        vote: vote(1, 1, true),
        prev_log_id: before,
        entries: entry
            .map(|index| Entry { log_id: log_id(1, index), payload: openraft::EntryPayload::Blank })
            .into_iter()
            .collect(),
        leader_commit: None,
    };
    let request = Envelope { cluster: CLUSTER, to: Some(ME), request: Request::Append(append) };
    let answer = Response::decode(replica.receive_unchecked(request.encode()).await).unwrap();
    assert!(matches!(answer, Response::Append(_)), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_and_promises_alone_are_not_waited_for_for_ever() {
    let replica = start().await;
    let fed = replica.clone();
    let feeding = task::spawn(async move {
        // Entries come for ten minutes, and then heartbeats only.
        for index in 0..20 {
            feed(&fed, Some(index)).await;
            time::sleep(Duration::from_secs(30)).await;
        }
        loop {
            feed(&fed, None).await;
            time::sleep(Duration::from_millis(300)).await;
        }
    });
    let before = time::now();
    let joining = time::timeout(Duration::from_secs(3_600), replica.join(&[NodeId(1)]));
    let error = joining.await.expect("an end within an hour").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let told = error.to_string();
    assert!(told.contains("no voter") && told.contains("no member with 20 log entries"), "{told}");
    // The last entry came after 570 seconds.
    assert_eq!(before.elapsed().as_secs() / 10, (570 + 300) / 10);
    feeding.abort();
    replica.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_state_that_starts_over_again_and_again_is_no_way_in() {
    let replica = start().await;
    let mut chunks = MemoryStore::new().snapshot().unwrap().export().unwrap();
    let chunk = chunks.next().unwrap().unwrap();
    let fed = replica.clone();
    let feeding = task::spawn(async move {
        for transfer in 0.. {
            let piece = Request::SnapshotChunk { transfer, number: 0, chunk: chunk.clone() };
            let request = Envelope { cluster: CLUSTER, to: Some(ME), request: piece };
            let answer = Response::decode(fed.receive_unchecked(request.encode()).await).unwrap();
            assert!(matches!(answer, Response::Done), "{answer:?}");
            time::sleep(Duration::from_secs(10)).await;
        }
    });
    let before = time::now();
    let joining = time::timeout(Duration::from_secs(3_600), replica.join(&[NodeId(1)]));
    let error = joining.await.expect("an end within an hour").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("1 pieces of a state"), "{error}");
    assert_eq!(before.elapsed().as_secs() / 10, 300 / 10);
    feeding.abort();
    replica.stop().await;
}
