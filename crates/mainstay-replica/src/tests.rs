//! What only the inside of the crate can see: openraft's own suites, and the wire formats against arbitrary bytes.

use mainstay_core::ClusterId;

/// The cluster that the replicas of these tests belong to.
const CLUSTER: ClusterId = ClusterId(0xc1);

mod checkpoint_scheduler;
mod coalesce_empty_appends;
mod committing;
mod epochs;
mod following;
mod golden;
mod inline_executor;
mod joining;
mod leaving;
mod network;
mod overtaken;
mod peers;
mod pipelined_appends;
mod repeating;
mod retaining;
mod runtime_suite;
mod senders;
mod set_members;
mod snapshot_reception;
mod storage_suite;
mod strangers;
mod ticking;
mod watching;
mod wire_formats;

impl crate::Replica {
    /// Answers a request whoever sends it.
    async fn receive_unchecked(&self, request: bytes::Bytes) -> bytes::Bytes {
        self.expect_anyone();
        self.receive(mainstay_core::NodeId(u64::MAX), request).await
    }
}
