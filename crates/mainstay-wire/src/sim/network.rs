use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstay_core::time::{self, Instant};
use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::pipe::{self, Pipe};
use crate::address::Address;
use crate::stream::{Connecting, Connection, Dial, Listen};

/// How many connections wait to be accepted; more are refused.
const BACKLOG_MAX: usize = 128;

/// How long a dial takes to fail where nothing answers.
const DIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// What a link between two hosts is like, one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SimLink {
    /// How long a byte is on the way.
    pub delay: Duration,
    /// How many bytes leave in a second, of all connections together; as many as there are if it is `None`.
    pub bytes_per_second: Option<u64>,
}

/// A simulated network. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct SimNetwork {
    state: Arc<Mutex<State>>,
}

/// Dials from one host.
#[derive(Debug, Clone)]
pub struct SimDial {
    network: SimNetwork,
    host: String,
}

/// Listens at one address of a host.
#[derive(Debug)]
pub struct SimListen {
    network: SimNetwork,
    address: Address,
    backlog: mpsc::Receiver<Connection>,
}

#[derive(Debug, Default)]
struct State {
    listening: BTreeMap<Address, mpsc::Sender<Connection>>,
    /// The way from one host to another.
    wires: BTreeMap<(String, String), Arc<Mutex<Wire>>>,
    connections: Vec<SimConnection>,
    names: BTreeMap<String, String>,
    dials: u64,
}

/// A connection, the host that has dialed first.
#[derive(Debug)]
struct SimConnection {
    from: String,
    to: String,
    pipes: [Weak<Mutex<Pipe>>; 2],
}

/// One way between two hosts.
#[derive(Debug, Default)]
pub(super) struct Wire {
    link: SimLink,
    pub(super) is_cut: bool,
    free: Option<Instant>,
}

impl Wire {
    /// When bytes arrive that leave now, after all that left before them.
    pub(super) fn carry(&mut self, bytes: usize) -> Instant {
        let now = time::now();
        let starts = self.free.map_or(now, |free| free.max(now));
        let takes = match self.link.bytes_per_second {
            Some(rate) => Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / rate.max(1)),
            None => Duration::ZERO,
        };
        self.free = Some(starts + takes);
        starts + takes + self.link.delay
    }
}

impl SimNetwork {
    /// A network where all hosts reach each other at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// What dials from a host.
    pub fn dial_from(&self, host: &str) -> SimDial {
        SimDial { network: self.clone(), host: host.to_owned() }
    }

    /// Listens at an address.
    ///
    /// # Errors
    /// `Invalid` if something else does.
    pub fn listen(&self, address: &Address) -> Result<SimListen> {
        let mut state = self.state.lock();
        if state.listening.contains_key(address) {
            return Err(Error::invalid(format!("{address} is in use: choose another port")));
        }
        let (sender, backlog) = mpsc::channel(BACKLOG_MAX);
        state.listening.insert(address.clone(), sender);
        Ok(SimListen { network: self.clone(), address: address.clone(), backlog })
    }

    /// Lets a name mean a host from now on; connections that there are stay where they are.
    pub fn resolve(&self, name: &str, host: &str) {
        self.state.lock().names.insert(name.to_owned(), host.to_owned());
    }

    /// Sets what the link between two hosts is like, both ways.
    pub fn set_link(&self, one: &str, two: &str, link: SimLink) {
        for wire in self.both_ways(one, two) {
            wire.lock().link = link;
        }
    }

    /// Lets nothing through from one host to another, until it is healed: connections stay, and neither end is told.
    pub fn cut_one_way(&self, from: &str, to: &str) {
        self.wire(from, to).lock().is_cut = true;
    }

    /// Lets nothing through between two hosts, until it is healed: connections stay, and neither end is told.
    pub fn cut(&self, one: &str, two: &str) {
        self.cut_one_way(one, two);
        self.cut_one_way(two, one);
    }

    /// Lets everything through again, with what was sent in the meantime.
    pub fn heal(&self, one: &str, two: &str) {
        for wire in self.both_ways(one, two) {
            wire.lock().is_cut = false;
        }
        self.each_pipe(one, two, Pipe::wake);
    }

    /// Resets all connections between two hosts: both ends see an error.
    pub fn reset(&self, one: &str, two: &str) {
        self.each_pipe(one, two, Pipe::reset);
    }

    /// How many dials there were.
    pub fn dials(&self) -> u64 {
        self.state.lock().dials
    }

    /// How many connections there are between two hosts.
    pub fn connections(&self, one: &str, two: &str) -> usize {
        let mut count = 0;
        self.each_pipe(one, two, |_| count += 1);
        count / 2
    }

    fn both_ways(&self, one: &str, two: &str) -> [Arc<Mutex<Wire>>; 2] {
        [self.wire(one, two), self.wire(two, one)]
    }

    fn wire(&self, from: &str, to: &str) -> Arc<Mutex<Wire>> {
        self.state.lock().wires.entry((from.to_owned(), to.to_owned())).or_default().clone()
    }

    fn each_pipe(&self, one: &str, two: &str, mut action: impl FnMut(&mut Pipe)) {
        let mut pipes = Vec::new();
        self.state.lock().connections.retain(|SimConnection { from, to, pipes: both }| {
            // Both ends hold both pipes, for as long as either end is there.
            let both: Vec<_> = both.iter().filter_map(Weak::upgrade).collect();
            if (from == one && to == two) || (from == two && to == one) {
                pipes.extend(both.iter().cloned());
            }
            !both.is_empty()
        });
        for pipe in pipes {
            action(&mut pipe.lock());
        }
    }

    async fn connect(&self, from: &str, address: &Address) -> Result<Connection> {
        let unreachable = |why: &str| {
            Error::new(ErrorKind::Retry, format!("{address} cannot be reached")).with_source(why.to_owned())
        };
        let (to, there, back) = {
            let mut state = self.state.lock();
            state.dials += 1;
            let to = state.names.get(address.host()).cloned().unwrap_or_else(|| address.host().to_owned());
            drop(state);
            (to.clone(), self.wire(from, &to), self.wire(&to, from))
        };
        let (delay, is_cut) = {
            // One after the other: from a host to itself they are the same.
            let of = |wire: &Arc<Mutex<Wire>>| {
                let wire = wire.lock();
                (wire.link.delay, wire.is_cut)
            };
            let (there, back) = (of(&there), of(&back));
            (there.0 + back.0, there.1 || back.1)
        };
        if is_cut {
            time::sleep(DIAL_TIMEOUT).await;
            return Err(unreachable("nothing answers"));
        }
        time::sleep(delay).await;
        let (dialed, accepted, pipes) = pipe::connect(&there, &back);
        let local: Address = format!("{to}:{}", address.port()).parse()?;
        let mut state = self.state.lock();
        let listening = state.listening.get(&local).ok_or_else(|| unreachable("connection refused"))?;
        let accepted = Connection { stream: Box::new(accepted), remote: from.to_owned(), is_loopback: true };
        listening.try_send(accepted).map_err(|_| unreachable("connection refused"))?;
        let pipes = pipes.each_ref().map(Arc::downgrade);
        state.connections.push(SimConnection { from: from.to_owned(), to, pipes });
        Ok(Connection { stream: Box::new(dialed), remote: address.to_string(), is_loopback: true })
    }
}

impl Dial for SimDial {
    fn dial<'a>(&'a self, address: &'a Address) -> Connecting<'a> {
        Box::pin(self.network.connect(&self.host, address))
    }
}

impl Listen for SimListen {
    fn accept(&mut self) -> Connecting<'_> {
        Box::pin(async {
            let next = self.backlog.recv().await;
            next.ok_or_else(|| Error::fatal("the simulated network is gone"))
        })
    }

    fn address(&self) -> &Address {
        &self.address
    }

    fn is_loopback(&self) -> bool {
        true
    }
}

impl Drop for SimListen {
    fn drop(&mut self) {
        self.network.state.lock().listening.remove(&self.address);
    }
}
