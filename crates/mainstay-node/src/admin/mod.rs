//! What an operator asks a running node, over HTTP: `GET /metrics` in the text form of Prometheus, `GET /health`.
//!
//! The path of a request: [`Admin`] accepts the connection, if there are not too many → hyper reads the head, within bounds of
//! size and time → [`answer`](page::answer) decides → the text is written, and that within a bound of time too. Nothing that
//! is sent here changes anything.

mod page;
mod publish;
mod recorder;
mod server;

#[cfg(feature = "testkit")]
pub(crate) use publish::publish;
pub(crate) use publish::{PUBLISH_INTERVAL, Publisher, keep_publishing};
pub(crate) use recorder::install;
pub(crate) use server::{Admin, bind};
