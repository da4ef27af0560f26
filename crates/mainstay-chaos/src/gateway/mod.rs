//! The way to a node from another process, as an application would have one of its own: requests and replies as JSON, a line each,
//! over TCP, one at a time on a connection.
//!
//! It is as plain as can be, so that what is found is about what lies behind it. A request that was sent and has no reply has an
//! unknown outcome; one that could not be sent has none.

mod line;
mod server;
mod target;

pub use server::Gateway;
pub use target::Gateways;
