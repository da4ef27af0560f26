use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mainstay_core::{ClusterId, Error, NodeId, Result};
use tokio::sync::watch;

use crate::class::{Class, Lane};
use crate::party::Sender;
use crate::policy::{Policy, RolePolicy};
use crate::stream::Dial;
use crate::tcp::TcpDial;
use crate::tls::Security;
use crate::window::Window;

/// What an endpoint is made of.
#[derive(Clone)]
pub struct EndpointOptions {
    /// Who this process is. With TLS, what its certificate says.
    pub sender: Sender,
    /// The cluster; `None` for a client or a node about to join that does not know it. A node knows it.
    pub cluster: Option<ClusterId>,
    /// Which start of its folder this is, of a node: it grows with each, so that others tell a new process from an old one.
    pub boot: u64,
    /// Features that others may want to know of, as bits.
    pub features: u64,
    /// How connections are protected.
    pub security: Security,
    /// How connections are made.
    pub dial: Arc<dyn Dial>,
    /// Who may connect, and send what.
    pub policy: Arc<dyn Policy>,
    /// Nodes that were removed from the cluster. They are refused by name; connections of one that is added are closed.
    pub removed: watch::Receiver<BTreeSet<NodeId>>,
    /// How long things take at most.
    pub timing: Timing,
    /// How much is taken in of each class at a time, of each peer.
    pub windows: [Window; Class::COUNT],
    /// The rate of the bulk lane, to all peers together.
    pub bulk_bytes_per_second: u64,
    /// How many processes that are no nodes may be connected; more are refused.
    pub sessions_max: usize,
}

/// How long things take at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From the connection to the end of the hello, TLS included. Who takes longer is dropped.
    pub handshake_max: Duration,
    /// The shortest pause before a dial after a failure.
    pub redial_min: Duration,
    /// The longest pause before a dial.
    pub redial_max: Duration,
    /// Of the heartbeat lane.
    pub heartbeat: LaneTiming,
    /// Of the data lane.
    pub data: LaneTiming,
    /// Of the bulk lane.
    pub bulk: LaneTiming,
}

/// When a connection is asked for a sign of life, and when it is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneTiming {
    /// When no frame has come for so long, a ping is sent.
    pub ping_after: Duration,
    /// When no frame has come for so long, the connection is given up.
    pub silence_max: Duration,
    /// When no message has come or gone for so long, the connection is closed, if that is to happen at all.
    pub idle_max: Option<Duration>,
}

impl EndpointOptions {
    /// The defaults: TCP without TLS on this machine alone, and the policy of a cluster.
    pub fn new(sender: Sender, cluster: Option<ClusterId>) -> Self {
        Self {
            sender,
            cluster,
            boot: 0,
            features: 0,
            security: Security::default(),
            dial: Arc::new(TcpDial),
            policy: Arc::new(RolePolicy::default()),
            removed: watch::Sender::new(BTreeSet::new()).subscribe(),
            timing: Timing::default(),
            windows: Class::ALL.map(Window::default_of),
            bulk_bytes_per_second: 64 << 20,
            sessions_max: 1024,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if matches!(self.sender, Sender::Node(_)) && self.cluster.is_none_or(|cluster| cluster.0 == 0) {
            return Err(Error::invalid("a node belongs to a cluster: give its id, which is not 0"));
        }
        for class in Class::ALL.into_iter().filter(|class| *class != Class::Reply) {
            let (window, message_max) = (self.windows[class.index()], class.message_bytes_max() as u64);
            if window.messages < 8 || window.bytes < 2 * message_max {
                return Err(Error::invalid(format!(
                    "the window of class {class} is too small: it is at least 8 messages and {} bytes, twice the largest message",
                    2 * message_max
                )));
            }
        }
        for lane in Lane::ALL.map(|lane| self.timing.lane(lane)) {
            if lane.ping_after >= lane.silence_max {
                return Err(Error::invalid(
                    "a connection is pinged before it is given up: ping_after is below silence_max",
                ));
            }
        }
        let Security::Tls(credentials) = &self.security else { return Ok(()) };
        match credentials.identity() {
            None if self.sender == Sender::Joining => Ok(()),
            Some(identity)
                if identity.sender == self.sender && self.cluster.is_none_or(|cluster| cluster == identity.cluster) =>
            {
                Ok(())
            }
            Some(identity) => {
                Err(Error::invalid(format!("the certificate is for {identity}, and this process is {}", self.sender)))
            }
            None => Err(Error::invalid(format!("{} needs a certificate", self.sender))),
        }
    }
}

impl std::fmt::Debug for EndpointOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointOptions")
            .field("sender", &self.sender)
            .field("cluster", &self.cluster)
            .field("boot", &self.boot)
            .field("security", &self.security)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

impl Timing {
    pub(crate) fn lane(&self, lane: Lane) -> LaneTiming {
        match lane {
            Lane::Heartbeat => self.heartbeat,
            Lane::Data => self.data,
            Lane::Bulk => self.bulk,
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        let lane = |ping_after, silence_max, idle_max| LaneTiming {
            ping_after: Duration::from_millis(ping_after),
            silence_max: Duration::from_millis(silence_max),
            idle_max,
        };
        Self {
            handshake_max: Duration::from_secs(3),
            redial_min: Duration::from_millis(50),
            redial_max: Duration::from_secs(2),
            heartbeat: lane(500, 2_000, None),
            data: lane(1_000, 5_000, None),
            bulk: lane(2_000, 10_000, Some(Duration::from_secs(60))),
        }
    }
}
