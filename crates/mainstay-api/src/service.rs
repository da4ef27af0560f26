//! Stateful services.

pub use mainstay_core::partitioning::{PartitionKey, Partitioning, Share};
/// The derive macro and the trait that it implements go by one name.
pub use mainstay_macros::Service;
pub use mainstay_runtime::{CALL_TIMEOUT_DEFAULT, Proxy, Service, ServiceContext, Services};
