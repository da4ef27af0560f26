//! What only the inside of the crate can see: openraft's own suites, and the wire formats against arbitrary bytes.

mod bundle;
mod committing;
mod epochs;
mod following;
mod growth;
mod joining;
mod network;
mod peers;
mod runtime_suite;
mod snapshot_reception;
mod storage_suite;
mod ticking;
mod unhurried;
mod watching;
mod wire_formats;

use bytes::Bytes;
use mainstay_store::state::WriteBatch;

/// A commit of some batches, as it stands in an entry.
fn encoded(batches: &[&WriteBatch]) -> Bytes {
    let mut commit = Vec::new();
    crate::command::encode_commit(&mut commit, batches.iter().map(|batch| batch.as_bytes()));
    commit.into()
}
