//! What others do with the same work. Each is used as its own documentation recommends for durable writes from many
//! threads, and with its defaults otherwise.

pub(super) mod fjall;
pub(super) mod redb;
pub(super) mod sqlite;

#[cfg(feature = "peer-raft-engine")]
pub(super) mod raft_engine;
#[cfg(feature = "peer-rocksdb")]
pub(super) mod rocksdb;
