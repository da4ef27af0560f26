//! The same counter in other libraries, each as its documentation says is the fastest way to have it.

pub(super) mod actix;
pub(super) mod kameo;
pub(super) mod ractor;
pub(super) mod tokio;
pub(super) mod xtra;
