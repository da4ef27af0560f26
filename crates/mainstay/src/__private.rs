//! What the macros write. Nobody else is to use it.

pub use mainstay_core::partitioning::Partitioning;
pub use mainstay_runtime::{
    Caller, ExclusiveHost, ExclusiveMethod, Host, Interfaces, Offered, Opening, Proxy, Service, ServiceContext,
    SharedInterface, SharedMethod, Turn, WithoutRun, assert_contract, checked_run,
};
