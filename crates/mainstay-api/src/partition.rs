//! Partitions, and the seams below them.

pub use mainstay_replica::{Batch, Partition, Role, RoleState, Snapshot};
pub use mainstay_replica::{InProcessNetwork, Traffic, Transport, UniformSets, UniformSetsOptions};
pub use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
pub use mainstay_store::disk::{Disk, DiskFile, DiskLock, OpenMode, RealDisk};
pub use mainstay_store::log::{Driver, SyncDelay};
pub use mainstay_store::state::{KeyRange, Mark, Order, Scan};
