//! Partitions, and the seams below them. What stands in for a disk or a network in tests comes with the feature `testkit`.

#[cfg(feature = "testkit")]
pub use mainstay_replica::InProcessNetwork;
pub use mainstay_replica::{Batch, Partition, Role, RoleState, Snapshot};
pub use mainstay_replica::{NodeReplicasOptions, Traffic, Transport, UniformSets, UniformSetsOptions};
#[cfg(feature = "testkit")]
pub use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
pub use mainstay_store::disk::{Disk, DiskFile, DiskLock, OpenMode, RealDisk};
#[cfg(feature = "testkit")]
pub use mainstay_store::log::{Driver, SyncDelay};
pub use mainstay_store::state::{KeyRange, Mark, Order, Scan};
