//! Stateful services: one object per partition.

pub(crate) mod activation;
pub(crate) mod context;
pub(crate) mod definition;
pub(crate) mod host;
pub(crate) mod missing_run;
pub(crate) mod opening;
pub(crate) mod run;
