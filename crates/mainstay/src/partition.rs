//! Partitions: ordered keys and values whose changes are atomic, replicated and durable.
//!
//! This is the ground that collections and actors stand on, for those who want to build something else on it. A
//! [`Node`](crate::Node) opens a [`Host`] by itself; here it is opened by hand, on a network within the process.
//!
//! ```
//! use std::sync::Arc;
//!
//! use mainstay::partition::{Host, HostOptions, InProcessNetwork, RealDisk, Role};
//! use mainstay::prelude::*;
//! use mainstay::{NodeId, PartitionId};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! // One process with one data folder is a complete system.
//! let node = NodeId(1);
//! let transport = InProcessNetwork::new().endpoint(node);
//! let host = Host::open(Arc::new(RealDisk), folder, HostOptions::new(node), transport).await?;
//! host.found().await?;
//!
//! let partition = host.partition(Level::Persisted, PartitionId(7));
//! partition.watch().wait_for(|standing| standing.role == Role::Primary).await?;
//!
//! let mut batch = partition.batch();
//! batch.put(b"alice", b"12").put(b"bob", b"7");
//! let sequence_number = partition.commit(batch).await?; // on disk when this returns
//!
//! assert_eq!(partition.get(b"alice")?.as_deref(), Some(&b"12"[..]));
//! # let _ = sequence_number;
//! host.stop().await;
//! # Ok(())
//! # }
//! ```

pub use mainstay_replica::{Batch, Partition, Role, Snapshot, Standing};
pub use mainstay_replica::{Host, HostOptions, InProcessNetwork, Transport};
pub use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
pub use mainstay_store::disk::{Disk, DiskFile, DiskLock, OpenMode, RealDisk};
pub use mainstay_store::log::{Driver, SyncDelay};
pub use mainstay_store::state::{KeyRange, Mark, Order, Scan};
