use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use mainstay_wire::Address;
use mainstay_wire::tls::JoinToken;

use super::form::Form;
use super::key::Key;
use super::node_keys::NodeDraft;
use super::value::Value;

/// Where a node of a cluster listens unless told otherwise: on this machine alone.
pub const CLUSTER_ADDRESS_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7400);

/// The longest fault domain: region, zone and rack with room to spare.
pub(crate) const FAULT_DOMAIN_BYTES_MAX: usize = 256;

/// The settings of a node's part in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Where other nodes and clients connect.
    pub listen: SocketAddr,
    /// The address that others dial, where it differs from the one that is listened on.
    pub advertise: Option<Address>,
    /// Nodes to ask for admission, in the first start of an empty data folder.
    pub seeds: Vec<Address>,
    /// The part of the infrastructure that fails together with this node, from large to small: `region/zone/rack`.
    pub fault_domain: Option<String>,
    /// The rhythm of heartbeats and elections, which the first node of a cluster chooses for all of it.
    pub profile: Option<Profile>,
    /// Whether connections are encrypted, where that was said in so many words.
    pub tls: Option<TlsMode>,
    /// The certificate of this process with its chain, in PEM.
    pub certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    pub key: Option<PathBuf>,
    /// The authorities whose certificates are trusted, in PEM.
    pub authorities: Option<PathBuf>,
    /// The key of the authority, in PEM, on a node that issues certificates to those that join with a token.
    pub authority_key: Option<PathBuf>,
    /// The token by which the node is admitted and gets its certificate.
    pub token: Option<JoinToken>,
}

/// The rhythm of heartbeats and elections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Profile {
    /// For a data centre: a failover takes less than two seconds.
    #[default]
    Default,
    /// For a quiet local network: a failover takes less than half a second, at a higher cost of an idle cluster.
    Fast,
    /// For nodes in several regions: round trips of a few hundred milliseconds cause no election.
    Wan,
}

/// Whether connections are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// TLS 1.3, with certificates on both ends.
    On,
    /// Plain bytes, also to other machines.
    Off,
}

impl Profile {
    pub(crate) const NAMES: &[&str] = &["default", "fast", "wan"];

    /// Its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Fast => "fast",
            Self::Wan => "wan",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Default, Self::Fast, Self::Wan].into_iter().find(|profile| profile.name() == name)
    }
}

impl TlsMode {
    const NAMES: &[&str] = &["on", "off"];

    /// Its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::On, Self::Off].into_iter().find(|mode| mode.name() == name)
    }
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            listen: CLUSTER_ADDRESS_DEFAULT,
            advertise: None,
            seeds: Vec::new(),
            fault_domain: None,
            profile: None,
            tls: None,
            certificate: None,
            key: None,
            authorities: None,
            authority_key: None,
            token: None,
        }
    }
}

/// A path that may be left out.
const fn optional_path(
    name: &'static str,
    get: fn(&NodeDraft) -> Value,
    set: fn(&mut NodeDraft, Value),
) -> Key<NodeDraft> {
    Key { name, form: Form::OptionalPath, get, set }
}

/// The value of an optional path.
fn path_value(path: &Option<PathBuf>) -> Value {
    path.clone().map_or(Value::None, Value::Path)
}

fn path_of(value: Value) -> Option<PathBuf> {
    match value {
        Value::Path(path) => Some(path),
        _ => None,
    }
}

fn text_of(value: Value) -> Option<String> {
    match value {
        Value::Text(text) | Value::Secret(text) => Some(text),
        _ => None,
    }
}

pub(crate) const LISTEN: Key<NodeDraft> = Key {
    name: "cluster.listen",
    form: Form::Address,
    get: |draft| Value::Address(draft.cluster.listen),
    set: |draft, value| {
        if let Value::Address(address) = value {
            draft.cluster.listen = address;
        }
    },
};

pub(crate) const ADVERTISE: Key<NodeDraft> = Key {
    name: "cluster.advertise",
    form: Form::HostAndPort,
    get: |draft| draft.cluster.advertise.as_ref().map_or(Value::None, |address| Value::Text(address.to_string())),
    set: |draft, value| draft.cluster.advertise = text_of(value).and_then(|text| text.parse().ok()),
};

pub(crate) const SEEDS: Key<NodeDraft> = Key {
    name: "cluster.seeds",
    form: Form::HostsAndPorts,
    get: |draft| Value::List(draft.cluster.seeds.iter().map(ToString::to_string).collect()),
    set: |draft, value| {
        if let Value::List(seeds) = value {
            draft.cluster.seeds = seeds.iter().filter_map(|seed| seed.parse().ok()).collect();
        }
    },
};

pub(crate) const FAULT_DOMAIN: Key<NodeDraft> = Key {
    name: "cluster.fault_domain",
    form: Form::OptionalText(FAULT_DOMAIN_BYTES_MAX),
    get: |draft| draft.cluster.fault_domain.clone().map_or(Value::None, Value::Text),
    set: |draft, value| draft.cluster.fault_domain = text_of(value),
};

pub(crate) const PROFILE: Key<NodeDraft> = Key {
    name: "cluster.profile",
    form: Form::OptionalChoice(Profile::NAMES),
    get: |draft| draft.cluster.profile.map_or(Value::None, |profile| Value::Text(profile.name().to_owned())),
    set: |draft, value| draft.cluster.profile = text_of(value).and_then(|name| Profile::named(&name)),
};

pub(crate) const TLS: Key<NodeDraft> = Key {
    name: "cluster.tls",
    form: Form::OptionalChoice(TlsMode::NAMES),
    get: |draft| draft.cluster.tls.map_or(Value::None, |mode| Value::Text(mode.name().to_owned())),
    set: |draft, value| draft.cluster.tls = text_of(value).and_then(|name| TlsMode::named(&name)),
};

pub(crate) const CERTIFICATE: Key<NodeDraft> = optional_path(
    "cluster.certificate",
    |draft| path_value(&draft.cluster.certificate),
    |draft, value| draft.cluster.certificate = path_of(value),
);

pub(crate) const KEY: Key<NodeDraft> = optional_path(
    "cluster.key",
    |draft| path_value(&draft.cluster.key),
    |draft, value| draft.cluster.key = path_of(value),
);

pub(crate) const AUTHORITIES: Key<NodeDraft> = optional_path(
    "cluster.authorities",
    |draft| path_value(&draft.cluster.authorities),
    |draft, value| draft.cluster.authorities = path_of(value),
);

pub(crate) const TOKEN: Key<NodeDraft> = Key {
    name: "cluster.token",
    form: Form::JoinToken,
    get: |draft| draft.cluster.token.as_ref().map_or(Value::None, |token| Value::Secret(token.to_text())),
    set: |draft, value| draft.cluster.token = text_of(value).and_then(|text| text.parse().ok()),
};

pub(crate) const AUTHORITY_KEY: Key<NodeDraft> = optional_path(
    "cluster.authority_key",
    |draft| path_value(&draft.cluster.authority_key),
    |draft, value| draft.cluster.authority_key = path_of(value),
);
