//! Partitions: ordered keys and values whose changes are atomic, replicated and durable.
//!
//! This is the ground that collections and actors stand on, for those who want to build something else on it. A
//! [`Node`](crate::Node) opens a [`UniformSets`] by itself; here it is opened by hand, on a network within the process.
//!
//! ```
//! use std::sync::Arc;
//!
//! use mainstay::partition::{UniformSets, UniformSetsOptions, InProcessNetwork, RealDisk, Role};
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
//! let replicas = UniformSets::open(Arc::new(RealDisk), folder, UniformSetsOptions::new(node), transport).await?;
//! replicas.bootstrap().await?;
//!
//! let partition = replicas.partition(Level::Persisted, PartitionId(7));
//! partition.watch().wait_for(|standing| standing.role == Role::Primary).await?;
//!
//! let mut batch = partition.batch();
//! batch.put(b"alice", b"12").put(b"bob", b"7");
//! let sequence_number = partition.commit(batch).await?; // on disk when this returns
//!
//! assert_eq!(partition.get(b"alice")?.as_deref(), Some(&b"12"[..]));
//! # let _ = sequence_number;
//! replicas.stop().await;
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use mainstay_api::partition::*;
