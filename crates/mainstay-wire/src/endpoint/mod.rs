//! The place of a process on the network: what it sends with, and what receives for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, NodeId, Result};

use crate::address::Address;
use crate::class::{Class, Lane};
use crate::kind::Kind;
use crate::options::EndpointOptions;
use crate::party::{Peer, SessionId};
use crate::policy::Introduction;
use crate::serve::Serve;
use crate::stream::Listen;

mod accepting;
mod call;
mod dialing;
mod doorway;
mod driving;
mod shared;

use call::Call;
use shared::EndpointCore;

/// How often a message is put into another connection because the one before came to its end at that moment.
const ATTEMPTS_MAX: usize = 4;

/// The place of a process on the network. It keeps three connections to each node that it knows, and accepts those of others. Clones
/// are the same one; it ends with [`stop`](Endpoint::stop), or at once when the last clone is dropped.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use mainstay_core::{ClusterId, NodeId};
/// use mainstay_wire::{Class, Endpoint, EndpointOptions, Incoming, Kind, Sender, Serve, TcpListen};
///
/// const ECHO: Kind = Kind::call(1);
///
/// struct Echo;
///
/// impl Serve for Echo {
///     fn receive(&self, incoming: Incoming) {
///         match incoming.kind() {
///             ECHO => { let body = incoming.body().clone(); incoming.answer(Ok(body)) }
///             _ => incoming.refuse_kind(),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> mainstay_core::Result<()> {
/// let cluster = Some(ClusterId(7));
/// let node = Endpoint::start(EndpointOptions::new(Sender::Node(NodeId(1)), cluster), Arc::new(Echo))?;
/// let address = node.listen(TcpListen::bind(&"127.0.0.1:0".parse()?).await?)?;
///
/// let client = Endpoint::start(EndpointOptions::new(Sender::client("web")?, None), Arc::new(Echo))?;
/// let to = client.connect(&address).await?;
/// let answer = client.call(to.into(), Class::Call, ECHO, "hello".into(), Duration::from_secs(5)).await?;
/// assert_eq!(answer, "hello");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Endpoint {
    shared: Arc<EndpointCore>,
    _guard: Arc<EndpointGuard>,
}

/// Ends the tasks of an endpoint when nobody can use it any more. The tasks themselves hold the rest.
struct EndpointGuard(Arc<EndpointCore>);

impl Drop for EndpointGuard {
    fn drop(&mut self) {
        self.0.halt();
    }
}

/// A connection, for those who watch over it.
#[derive(Debug, Clone)]
pub struct ConnectionReport {
    /// Who is at the other end.
    pub introduction: Introduction,
    /// How many calls wait for an answer of it.
    pub calls: usize,
    /// How many requests of it are being carried out.
    pub requests: usize,
}

impl Endpoint {
    /// Starts an endpoint on the current runtime. It dials nobody and accepts nobody yet.
    ///
    /// # Errors
    /// `Invalid` if the options contradict each other or the certificate.
    pub fn start(options: EndpointOptions, serve: Arc<dyn Serve>) -> Result<Self> {
        options.check()?;
        let shared = EndpointCore::start(options, serve);
        Ok(Self { _guard: Arc::new(EndpointGuard(shared.clone())), shared })
    }

    /// Accepts connections, and returns where.
    ///
    /// # Errors
    /// `Invalid` if others than this machine can connect there without TLS, and the options do not say that this is meant.
    pub fn listen(&self, listen: impl Listen) -> Result<Address> {
        let address = listen.address().clone();
        self.shared.options.security.check(&format!("the listening address {address}"), listen.is_loopback())?;
        let shared = self.shared.clone();
        self.shared.scope.spawn(accepting::accept_all(shared, Box::new(listen)));
        Ok(address)
    }

    /// Says where a node is. A node keeps its connections for heartbeats and data to every node of which it knows that.
    pub fn set_address(&self, node: NodeId, address: Address) {
        self.shared.set_address(node, address);
    }

    /// Forgets where a node is, and closes the connections to it.
    pub fn forget(&self, node: NodeId) {
        self.shared.forget(node, "the node was forgotten here");
    }

    /// Connects to whoever is at an address, and remembers it. For seeds, whose ids are not known yet.
    ///
    /// # Errors
    /// `Retry` if nobody is there now, and `Invalid` if whoever is there refuses, or is not of this cluster.
    pub async fn connect(&self, address: &Address) -> Result<NodeId> {
        // A task of its own, because what becomes of the connection does not depend on who waits here.
        let task = self.shared.scope.spawn(dialing::connect(self.shared.clone(), address.clone()));
        task.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Retry, "the endpoint has stopped")))
    }

    /// Sends a message that wants no answer. It is on its way when this returns, and may be lost with the connection.
    ///
    /// # Errors
    /// `Overloaded` if the peer has as many messages of the class as it takes in, `Retry` if it is not reached, `TooLarge` and
    /// `Invalid` for what cannot be sent. In none of these cases was anything sent.
    pub fn send(&self, to: Peer, class: Class, kind: Kind, body: Bytes) -> Result<()> {
        self.shared.begin(to, class, kind, body, None, false).map(|_| ())
    }

    /// Sends a request, and waits for the answer for so long at most. Dropping the future cancels the request, on both sides.
    ///
    /// # Errors
    /// What the peer has answered; and of the wire itself as for [`send`](Self::send), `Timeout` if the request was not sent in
    /// time, and `OutcomeUnknown` if it was sent and the answer did not come: only then may it have been carried out.
    pub async fn call(&self, to: Peer, class: Class, kind: Kind, body: Bytes, time_limit: Duration) -> Result<Bytes> {
        let deadline = time::now() + time_limit.min(call::TIME_LIMIT_MAX);
        let (channel, id) = self.shared.begin(to, class, kind, body, Some(deadline), true)?;
        let mut call = Call::new(channel, id);
        match time::timeout_at(deadline, &mut call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(call.timed_out(to, time_limit)),
        }
    }

    /// Limits the rate of the bulk lane, to all peers together.
    pub fn set_bulk_rate(&self, bytes_per_second: u64) {
        self.shared.bucket.lock().set_rate(bytes_per_second);
    }

    /// Is there a connection of this lane to the peer now?
    pub fn is_connected(&self, peer: Peer, lane: Lane) -> bool {
        self.shared.known_link(peer, lane).is_some_and(|link| link.current().is_some())
    }

    /// All connections that are in use.
    pub fn connections(&self) -> Vec<ConnectionReport> {
        let current = self.shared.links().into_iter().filter_map(|link| link.current());
        let report = |(channel, introduction): (Arc<crate::channel::Channel>, Arc<Introduction>)| {
            let (calls, requests) = channel.under_way();
            ConnectionReport { introduction: introduction.as_ref().clone(), calls, requests }
        };
        current.map(report).collect()
    }

    /// The number of this process where it is no node.
    pub fn session(&self) -> SessionId {
        self.shared.session
    }

    /// Moves all messages to new connections: those that there are end when nothing is under way on them.
    pub fn renew_connections(&self) {
        self.shared.renew_connections();
    }

    /// Ends in order: begins nothing new, lets what is under way end, for so long at most, and closes all connections.
    pub async fn stop(&self, grace: Duration) {
        self.shared.stop(grace).await;
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("sender", &self.shared.options.sender).finish_non_exhaustive()
    }
}
