use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::task::Scope;
use mainstay_core::time::{self, Instant};
use mainstay_core::{Error, ErrorKind, NodeId, Result, random};
use parking_lot::{Mutex, RwLock};
use rand::RngExt as _;
use tokio::sync::watch;

use super::doorway::Doorway;
use super::{ATTEMPTS_MAX, dialing};
use crate::address::Address;
use crate::bucket::TokenBucket;
use crate::channel::{Channel, Untaken};
use crate::class::{Class, Lane};
use crate::hello::Hello;
use crate::kind::Kind;
use crate::link::{Link, Way};
use crate::options::EndpointOptions;
use crate::party::{Peer, Sender, SessionId};
use crate::policy;
use crate::serve::Serve;
use crate::throttle::Throttle;
use crate::tls::Security;
use crate::{handshake, policy::Introduction};

/// What all tasks of an endpoint share.
pub(super) struct EndpointCore {
    pub(super) options: EndpointOptions,
    pub(super) serve: Arc<dyn Serve>,
    pub(super) scope: Scope,
    pub(super) session: SessionId,
    pub(super) bucket: Arc<Mutex<TokenBucket>>,
    pub(super) doorway: Arc<Doorway>,
    peers: RwLock<BTreeMap<Peer, [Arc<Link>; 3]>>,
    addresses: RwLock<BTreeMap<NodeId, Address>>,
    sequence: AtomicU64,
    is_stopping: AtomicBool,
    /// How many connections there are, those that come to their end included.
    open: watch::Sender<usize>,
    throttle: Throttle,
}

impl EndpointCore {
    pub(super) fn start(options: EndpointOptions, serve: Arc<dyn Serve>) -> Arc<Self> {
        let shared = Arc::new(Self {
            serve,
            scope: Scope::new(),
            session: SessionId(random::rng().random()),
            bucket: Arc::new(Mutex::new(TokenBucket::new(options.bulk_bytes_per_second))),
            doorway: Arc::default(),
            peers: RwLock::default(),
            addresses: RwLock::default(),
            sequence: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            open: watch::Sender::new(0),
            throttle: Throttle::default(),
            options,
        });
        shared.scope.spawn(follow_removals(shared.clone()));
        if let Security::Tls(credentials) = &shared.options.security {
            shared.scope.spawn(follow_credentials(shared.clone(), credentials.replaced()));
        }
        shared
    }

    /// Puts a message on its way.
    pub(super) fn begin(
        self: &Arc<Self>,
        to: Peer,
        class: Class,
        kind: Kind,
        mut body: Bytes,
        deadline: Option<Instant>,
        wants_answer: bool,
    ) -> Result<(Arc<Channel>, u64)> {
        if self.is_stopping() {
            return Err(Error::new(ErrorKind::Retry, "the endpoint has stopped, and nothing was sent"));
        }
        if class == Class::Reply {
            return Err(Error::invalid("an answer is sent by answering, and not as a message of its own"));
        }
        if body.len() > class.message_bytes_max() {
            let text = format!(
                "a message of {} bytes is larger than {}, the largest of class {class}: split it",
                body.len(),
                class.message_bytes_max()
            );
            return Err(Error::new(ErrorKind::TooLarge, text));
        }
        let link = self.link(to, class.lane())?;
        for _ in 0..ATTEMPTS_MAX {
            let channel = match link.way(time::now(), || self.channel(to, link.lane))? {
                Way::Use(channel) => channel,
                Way::Dial(channel) => {
                    self.scope.spawn(dialing::dial(self.clone(), link.clone(), channel.clone()));
                    channel
                }
            };
            match channel.begin(class, kind, body, deadline, wants_answer) {
                Ok(id) => return Ok((channel, id)),
                Err(Untaken::Failed(error)) => return Err(error),
                Err(Untaken::Ending(given_back)) => {
                    body = given_back;
                    link.detach(&channel);
                }
            }
        }
        Err(Error::new(ErrorKind::Retry, format!("connections to {to} come and go, and the message was not sent")))
    }

    pub(super) fn channel(&self, to: Peer, lane: Lane) -> Arc<Channel> {
        Channel::new(lane, to.to_string(), self.options.windows)
    }

    /// The way to a peer that there is, or to a node of which an address is known.
    fn link(&self, to: Peer, lane: Lane) -> Result<Arc<Link>> {
        if let Some(link) = self.known_link(to, lane) {
            return Ok(link);
        }
        match to {
            Peer::Session(_) => {
                Err(Error::new(ErrorKind::Retry, format!("{to} is not connected, and nothing was sent")))
            }
            Peer::Node(node) => {
                self.address(node)?;
                Ok(self.make_link(to, lane))
            }
        }
    }

    pub(super) fn known_link(&self, peer: Peer, lane: Lane) -> Option<Arc<Link>> {
        self.peers.read().get(&peer).map(|lanes| lanes[usize::from(lane.code())].clone())
    }

    pub(super) fn make_link(&self, peer: Peer, lane: Lane) -> Arc<Link> {
        let mut peers = self.peers.write();
        let links =
            peers.entry(peer).or_insert_with(|| Lane::ALL.map(|lane| Link::new(peer, lane, &self.options.timing)));
        links[usize::from(lane.code())].clone()
    }

    pub(super) fn links(&self) -> Vec<Arc<Link>> {
        self.peers.read().values().flatten().cloned().collect()
    }

    /// How many processes that are no nodes are connected.
    pub(super) fn sessions(&self) -> usize {
        self.peers.read().keys().filter(|peer| matches!(peer, Peer::Session(_))).count()
    }

    /// Forgets a process that is no node and has no connection.
    pub(super) fn forget_session(&self, peer: Peer) {
        let mut peers = self.peers.write();
        if let (Peer::Session(_), Some(links)) = (peer, peers.get(&peer))
            && links.iter().all(|link| link.current().is_none())
        {
            peers.remove(&peer);
        }
    }

    pub(super) fn address(&self, node: NodeId) -> Result<Address> {
        let address = self.addresses.read().get(&node).cloned();
        address.ok_or_else(|| {
            Error::new(ErrorKind::Retry, format!("the address of node {node} is not known, and nothing was sent"))
        })
    }

    pub(super) fn set_address(self: &Arc<Self>, node: NodeId, address: Address) {
        if self.options.sender == Sender::Node(node) {
            return;
        }
        self.addresses.write().insert(node, address);
        for lane in Lane::ALL {
            let link = self.make_link(Peer::Node(node), lane);
            self.keep(&link, Duration::ZERO);
        }
    }

    /// Remembers where a node was found, unless that was said otherwise.
    pub(super) fn note_address(&self, node: NodeId, address: &Address) {
        self.addresses.write().entry(node).or_insert_with(|| address.clone());
    }

    pub(super) fn forget(&self, node: NodeId, cause: &str) {
        self.addresses.write().remove(&node);
        let links = self.peers.write().remove(&Peer::Node(node));
        for link in links.iter().flatten() {
            link.close(cause);
        }
    }

    /// Is this connection to be there also when nobody sends anything?
    fn is_kept(&self, link: &Link) -> bool {
        let Peer::Node(node) = link.peer else { return false };
        let are_nodes = matches!(self.options.sender, Sender::Node(_));
        let is_known = self.addresses.read().contains_key(&node) && self.known_link(link.peer, link.lane).is_some();
        are_nodes && link.lane != Lane::Bulk && is_known && !self.is_stopping()
    }

    /// Dials after a pause, if the connection is to be kept and is not there then.
    pub(super) fn keep(self: &Arc<Self>, link: &Arc<Link>, pause: Duration) {
        if !self.is_kept(link) {
            return;
        }
        let (shared, link) = (self.clone(), link.clone());
        self.scope.spawn(async move {
            time::sleep(pause).await;
            if shared.is_kept(&link)
                && let Some(channel) = link.begin_dial(|| shared.channel(link.peer, link.lane))
            {
                dialing::dial(shared, link, channel).await;
            }
        });
    }

    pub(super) fn own_hello(&self, lane: Lane) -> Hello {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        handshake::own_hello(&self.options, lane, self.session, sequence)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(super) fn count_open(&self, change: isize) {
        self.open.send_modify(|open| *open = open.saturating_add_signed(change));
    }

    /// Logs what is wrong with a peer, and not too often.
    pub(super) fn complain(&self, remote: &str, what: &str) {
        self.throttle.complain(remote, what);
    }

    pub(super) fn report_skew(&self, introduction: &Introduction) {
        if introduction.clock_ahead_ms.unsigned_abs() > handshake::SKEW_REPORTED_MS.unsigned_abs() {
            let (sender, ahead) = (&introduction.sender, introduction.clock_ahead_ms);
            let what = format!("the wall clock of {sender} is {ahead} ms ahead: set the clocks");
            self.throttle.complain_about(&format!("clock of {sender}"), &introduction.remote, &what);
        }
    }

    pub(super) fn renew_connections(self: &Arc<Self>) {
        for link in self.links() {
            // Who is no node does not hear of this from here: it has made its connection, and renews it before our certificate
            // of today expires.
            if let (Peer::Node(_), Some((channel, _))) = (link.peer, link.current()) {
                channel.say_goodbye();
                self.replace(&link, &channel);
            }
        }
    }

    /// A connection comes to its end: lets another one take its place, if that is wanted without a message that asks for it.
    pub(super) fn replace(self: &Arc<Self>, link: &Arc<Link>, ending: &Arc<Channel>) {
        link.detach(ending);
        if self.is_kept(link) {
            self.keep(link, Duration::ZERO);
        } else if link.lane == Lane::Data && matches!(link.peer, Peer::Node(_)) && !self.is_stopping() {
            // A process that is no node is reached by what it has dialed alone.
            if let Some(channel) = link.begin_dial(|| self.channel(link.peer, link.lane)) {
                self.scope.spawn(dialing::dial(self.clone(), link.clone(), channel));
            }
        }
    }

    pub(super) async fn stop(self: &Arc<Self>, grace: Duration) {
        self.is_stopping.store(true, Ordering::Release);
        for link in self.links() {
            match link.current() {
                Some((channel, _)) => channel.say_goodbye(),
                None => link.close("the endpoint has stopped"),
            }
        }
        let mut open = self.open.subscribe();
        let _ = time::timeout(grace, open.wait_for(|open| *open == 0)).await;
        for link in self.links() {
            link.close("the endpoint has stopped");
        }
        self.halt();
    }

    /// Ends where it stands.
    pub(super) fn halt(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.scope.stop();
    }
}

/// Closes connections of nodes that are removed.
async fn follow_removals(shared: Arc<EndpointCore>) {
    let mut removed = shared.options.removed.clone();
    loop {
        let nodes: Vec<_> = removed.borrow_and_update().iter().copied().collect();
        for node in nodes {
            if shared.known_link(Peer::Node(node), Lane::Data).is_some() {
                shared.forget(node, &policy::removed(node).to_string());
            }
        }
        if removed.changed().await.is_err() {
            return;
        }
    }
}

/// Moves connections over when there are new certificates.
async fn follow_credentials(shared: Arc<EndpointCore>, mut replaced: watch::Receiver<u64>) {
    while replaced.changed().await.is_ok() {
        shared.renew_connections();
    }
}
