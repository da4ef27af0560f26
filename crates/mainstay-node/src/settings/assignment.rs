use super::actor_keys::ACTOR_KEYS;
use super::form::Raw;
use super::origin::Origin;
use super::placement::PLACEMENT_KEYS;
use super::section::Place;
use super::state_keys::STATE_KEYS;

/// The section for all services and actor types.
pub(crate) const DEFAULTS: &str = "defaults";

/// The sections of single services and actor types.
pub(crate) const SERVICES: &str = "services";

/// What a setting is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    Node,
    /// All services and actor types.
    Defaults,
    /// The service or actor type of this name.
    Service(String),
    /// A section of a library or of the application.
    Section(Place),
}

impl Scope {
    /// A key with its section in front.
    pub(crate) fn full(&self, key: &str) -> String {
        match self {
            Self::Node => key.to_owned(),
            Self::Defaults => format!("{DEFAULTS}.{key}"),
            Self::Service(name) => format!("{SERVICES}.{name}.{key}"),
            Self::Section(place) => place.full(key),
        }
    }
}

/// Whether a name needs no quotes in the file.
pub(crate) fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
}

/// A key as the file has it: the name of a service with a dot in it needs quotes there.
pub(crate) fn file_key(key: &str) -> String {
    match split(key) {
        (Scope::Service(name), rest) if !is_bare(&name) => {
            format!("{SERVICES}.{}.{rest}", serde_json::Value::String(name))
        }
        _ => key.to_owned(),
    }
}

/// Somebody's wish that a setting have a value, not yet checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) scope: Scope,
    /// Within the scope, with dots. Empty for a section without anything in it.
    pub(crate) key: String,
    pub(crate) raw: Raw,
    pub(crate) origin: Origin,
}

impl Assignment {
    /// What a builder call says, with the key as it would be in the file.
    pub(crate) fn of_builder(key: &str, value: &str) -> Self {
        let (scope, key) = split(key);
        Self { scope, key: key.to_owned(), raw: Raw::Bare(value.to_owned()), origin: Origin::Builder }
    }

    /// The key with its section in front.
    pub(crate) fn name(&self) -> String {
        self.scope.full(&self.key)
    }
}

fn split(key: &str) -> (Scope, &str) {
    if let Some(rest) = key.strip_prefix(DEFAULTS).and_then(|rest| rest.strip_prefix('.')) {
        return (Scope::Defaults, rest);
    }
    let Some(rest) = key.strip_prefix(SERVICES).and_then(|rest| rest.strip_prefix('.')) else {
        return (Scope::Node, key);
    };
    // Names of services may have dots, so the key is found from the end.
    let known = PLACEMENT_KEYS.into_iter().chain(ACTOR_KEYS.iter().map(|key| key.name));
    let known = known.chain(STATE_KEYS.iter().map(|key| key.name));
    let ends = known.filter_map(|known| rest.strip_suffix(known)?.strip_suffix('.').map(|name| (name, known)));
    let found = ends.min_by_key(|(name, _)| name.len());
    let (name, key) = found.or_else(|| rest.split_once('.')).unwrap_or((rest, ""));
    (Scope::Service(name.to_owned()), key)
}

#[test]
fn a_key_is_split_at_its_section_and_its_service() {
    let service = |name: &str| Scope::Service(name.to_owned());
    for (key, scope, rest) in [
        ("data_dir", Scope::Node, "data_dir"),
        ("admin.address", Scope::Node, "admin.address"),
        ("defaults.mailbox", Scope::Defaults, "mailbox"),
        ("services.Counter.mailbox", service("Counter"), "mailbox"),
        ("services.shop.Cart.replicas.min", service("shop.Cart"), "replicas.min"),
        ("services.shop.state.lock_timeout", service("shop"), "state.lock_timeout"),
        ("services.Counter.mailbx", service("Counter"), "mailbx"),
        ("services.Counter", service("Counter"), ""),
    ] {
        assert_eq!(split(key), (scope, rest), "{key}");
    }
}
