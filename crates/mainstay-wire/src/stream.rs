//! The seam to the network: byte streams that are dialed and accepted.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use mainstay_core::Result;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::address::Address;

/// Bytes both ways, in order: a TCP connection, or a simulated one.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream to another process, and what is known of it before it has said anything.
pub struct Connection {
    /// The bytes.
    pub stream: Box<dyn Stream>,
    /// Where the other end is, for people.
    pub remote: String,
    /// True if the other end is on this machine, so that nothing leaves it.
    pub is_loopback: bool,
}

impl Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("remote", &self.remote).field("is_loopback", &self.is_loopback).finish()
    }
}

/// A connection that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Connection>> + Send + 'a>>;

/// Makes connections.
///
/// To be correct:
/// - A name is resolved each time, and each address that it has is tried before the dial has failed.
/// - Dropping the future gives the dial up. The caller limits the time.
/// - What is written arrives in order and unaltered, or the stream ends; [`Connection::is_loopback`] is true only if no other
///   machine is involved.
pub trait Dial: Debug + Send + Sync + 'static {
    /// Connects to an address.
    ///
    /// # Errors
    /// `Retry` if nothing can be reached there now.
    fn dial<'a>(&'a self, address: &'a Address) -> Connecting<'a>;
}

/// Accepts connections.
///
/// To be correct:
/// - Dropping the future of [`accept`](Listen::accept) loses no connection.
/// - An error of one connection is not an error of [`accept`](Listen::accept); it fails only when no connection will ever come.
pub trait Listen: Debug + Send + 'static {
    /// The next connection.
    ///
    /// # Errors
    /// When there will be none.
    fn accept(&mut self) -> Connecting<'_>;

    /// Where it listens, with the port that was chosen if none was asked for.
    fn address(&self) -> &Address;

    /// True if only this machine can connect.
    fn is_loopback(&self) -> bool;
}
