use std::ffi::OsString;
use std::path::PathBuf;

use super::actor_keys::ACTOR_KEYS;
use super::assignment::{Assignment, Scope};
use super::form::Raw;
use super::nearest::nearest;
use super::node_keys::NODE_KEYS;
use super::origin::Origin;
use super::placement::{REPLICAS_MIN, REPLICAS_TARGET};
use super::state_keys::STATE_KEYS;

/// What the names of variables start with. The key follows in capitals, with underscores for dots: `admin.address` is
/// `MAINSTAY_ADMIN_ADDRESS`.
pub const VARIABLE_PREFIX: &str = "MAINSTAY_";

/// The variable that names the configuration file.
pub const CONFIG_VARIABLE: &str = "MAINSTAY_CONFIG";

/// What the environment says.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) config: Option<PathBuf>,
    pub(crate) assignments: Vec<Assignment>,
    /// Variables that mean nothing to the node. They may be of a section, and otherwise are remarked.
    pub(crate) others: Vec<(String, Raw)>,
}

impl Environment {
    /// Looks through variables. One that is empty counts as not set.
    pub(crate) fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let known: Vec<_> = known().collect();
        let mut environment = Self::default();
        let mut ours: Vec<_> =
            variables.into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        ours.retain(|(name, value)| name.starts_with(VARIABLE_PREFIX) && !value.is_empty());
        // The order of an environment means nothing.
        ours.sort();
        for (name, value) in ours {
            if name == CONFIG_VARIABLE {
                environment.config = Some(value.into());
                continue;
            }
            let raw = match value.into_string() {
                Ok(text) => Raw::Bare(text),
                Err(_) => Raw::Other("text that is not Unicode"),
            };
            if let Some((_, scope, key)) = known.iter().find(|(variable, ..)| *variable == name) {
                let origin = Origin::Environment(name);
                environment.assignments.push(Assignment { scope: scope.clone(), key: (*key).to_owned(), raw, origin });
            } else {
                environment.others.push((name, raw));
            }
        }
        environment
    }
}

/// A remark about a variable that means nothing. It refuses nothing, because not all of them are written by people:
/// orchestrators add variables with the names of services to every process, and one may be called mainstay.
pub(crate) fn remark(variable: &str, of_sections: impl Iterator<Item = String>) -> String {
    let known: Vec<_> = known().map(|(variable, ..)| variable).chain(of_sections).collect();
    let meant = nearest(variable, known.iter().map(String::as_str));
    let meant = meant.map_or(String::new(), |meant| format!(": was {meant} meant?"));
    format!("environment variable {variable} is not a setting and has no effect{meant}")
}

/// The variables that mean something, with their keys.
fn known() -> impl Iterator<Item = (String, Scope, &'static str)> {
    let node = NODE_KEYS.iter().map(|key| (Scope::Node, key.name));
    let defaults = ACTOR_KEYS.iter().map(|key| key.name).chain(STATE_KEYS.iter().map(|key| key.name));
    let defaults = defaults.chain([REPLICAS_MIN, REPLICAS_TARGET]);
    let all = node.chain(defaults.map(|key| (Scope::Defaults, key)));
    all.map(|(scope, key)| (variable(&scope, key), scope, key))
}

fn variable(scope: &Scope, key: &str) -> String {
    variable_of(&scope.full(key))
}

/// The variable for a key with its section in front. What cannot be in one is an underscore.
pub(crate) fn variable_of(key: &str) -> String {
    let letters = key.to_uppercase();
    let letters = letters.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    format!("{VARIABLE_PREFIX}{}", letters.collect::<String>())
}
