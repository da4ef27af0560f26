use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use mainstay_core::format::PROGRAM_VERSION;
use mainstay_core::time::Duration;
use mainstay_wire::tls::{Authority, JoinToken, Security};
use mainstay_wire::{Address, Dial, TcpDial};

use crate::control::record::PEER_ADDRESS;
use crate::controller::Founding;
use crate::message::NodeDescription;

/// The version of formats that this program reads and writes.
const FORMATS: u32 = 1;

/// What a node needs to be part of a cluster.
#[derive(Clone)]
pub struct ClusterOptions {
    /// Where others reach this node; `None` for a node alone, which listens to nobody.
    pub address: Option<Address>,
    /// Other addresses of it, by the name of what listens there.
    pub other_addresses: BTreeMap<String, Address>,
    /// Where to ask to join: names or addresses, resolved at each dial. A node with seeds and an empty folder joins; one without begins a
    /// cluster of its own.
    pub seeds: Vec<Address>,
    /// A token to join with. Its addresses are asked after the seeds.
    pub token: Option<JoinToken>,
    /// What fails together with this node, from the largest to the smallest: `region/zone/rack`.
    pub fault_domain: String,
    /// The services that this node has types for.
    pub types: BTreeSet<String>,
    /// How connections are protected. Of a node that joins with a token, what its folder has got then.
    pub security: Security,
    /// How connections are made.
    pub dial: Arc<dyn Dial>,
    /// What issues certificates, if this node has it.
    pub authority: Option<Arc<Authority>>,
    /// What the cluster is to be, if this node begins it.
    pub founding: Founding,
    /// How long it is tried to join.
    pub join_time_limit: Duration,
}

impl ClusterOptions {
    /// The defaults: a cluster of its own, on this machine alone.
    pub fn new(address: Address) -> Self {
        Self { address: Some(address), ..Self::alone() }
    }

    /// The defaults of a node alone.
    pub fn alone() -> Self {
        Self {
            address: None,
            other_addresses: BTreeMap::new(),
            seeds: Vec::new(),
            token: None,
            fault_domain: String::new(),
            types: BTreeSet::new(),
            security: Security::default(),
            dial: Arc::new(TcpDial),
            authority: None,
            founding: Founding::default(),
            join_time_limit: Duration::from_secs(60),
        }
    }

    /// What this node says of itself.
    pub(crate) fn description(&self) -> NodeDescription {
        let others = self.other_addresses.iter().map(|(name, address)| (name.clone(), address.to_string()));
        let own = self.address.iter().map(|address| (PEER_ADDRESS.to_owned(), address.to_string()));
        let addresses = others.chain(own).collect();
        NodeDescription {
            addresses,
            fault_domain: self.fault_domain.clone(),
            program: PROGRAM_VERSION.to_owned(),
            version_min: FORMATS,
            version_max: FORMATS,
            types: self.types.clone(),
        }
    }
}

impl fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterOptions")
            .field("address", &self.address)
            .field("seeds", &self.seeds)
            .field("fault_domain", &self.fault_domain)
            .field("security", &self.security)
            .finish_non_exhaustive()
    }
}
