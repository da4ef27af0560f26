use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use mainstay_core::partitioning::Partitioning;
use mainstay_core::{Level, Result};
use mainstay_runtime::{ActorSettings, StateOptions};

use super::actor_keys::ACTOR_KEYS;
use super::assignment::{Assignment, DEFAULTS, SERVICES, Scope};
use super::effective::Settings;
use super::environment::{Environment, remark};
use super::file::ConfigFile;
use super::form::Raw;
use super::nearest::nearest;
use super::node_keys::{NODE_KEYS, NodeDraft};
use super::origin::Origin;
use super::placement::{PARTITIONS, PERSISTENCE, REPLICAS_MIN, REPLICAS_TARGET};
use super::problem::{Problem, refusal};
use super::section::{Claim, Sections, Wishes};
use super::state_keys::{STATE_KEYS, is_state_key};

mod layered;
mod service;

pub(super) use layered::Layered;
pub(super) use service::section_alone;
use service::{ReplicaWishes, foreign_service, service};

/// A service or actor type as its code declares it.
#[derive(Debug, Clone)]
pub struct Declared {
    /// The name of the type.
    pub name: String,
    /// How its state is kept.
    pub level: Level,
    /// How it is cut.
    pub partitioning: Partitioning,
    /// For an actor type: what its attribute changes in the defaults. `None` for a service.
    pub actor: Option<fn(&mut ActorSettings)>,
}

/// What is known of the types that will be served.
#[derive(Debug)]
pub(crate) enum Knowledge {
    /// All of them: a section for another one is a mistake.
    Types(Vec<Declared>),
    /// Nothing, as in a tool beside the application.
    Nothing,
}

/// A call of the builder that sets something.
pub(crate) enum Step {
    /// Changes the node; `keys` are changed for sure, others by comparison.
    Node { keys: &'static [&'static str], change: Box<dyn FnOnce(&mut NodeDraft) + Send> },
    /// Changes the defaults of actors.
    Actors(Box<dyn FnOnce(&mut ActorSettings) + Send>),
    /// Sets one key as the file would.
    Set { key: String, value: String },
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node { keys, .. } => write!(f, "Node({keys:?})"),
            Self::Actors(_) => f.write_str("Actors"),
            Self::Set { key, value } => write!(f, "Set({key} = {value})"),
        }
    }
}

/// What a node finds around it when it starts.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    pub(crate) file: Option<ConfigFile>,
    pub(crate) environment: Environment,
}

impl Surroundings {
    /// Looks around: at the environment, and at the file that is named in code, by the environment or by its place.
    /// `isolated` is for a node that shall see neither, unless code names a file.
    ///
    /// # Errors
    /// `NotFound` if a file was named and is not there, `TooLarge` or `Invalid` if it cannot be read.
    pub(crate) fn look(config_file: Option<PathBuf>, isolated: bool) -> Result<Self> {
        let environment = if isolated { Environment::default() } else { Environment::of(std::env::vars_os()) };
        let file = match config_file.as_ref().or(environment.config.as_ref()) {
            Some(path) => Some(ConfigFile::read(path)?),
            None if isolated => None,
            None => ConfigFile::read_default()?,
        };
        Ok(Self { file, environment })
    }

    /// Lays what was said in all places over each other: defaults, what the code of a type says, the file, the
    /// environment, and the calls of the builder in their order.
    ///
    /// # Errors
    /// `Invalid` with everything that is wrong, each with its place.
    pub(crate) fn resolve(self, knowledge: Knowledge, sections: Sections, steps: Vec<Step>) -> Result<Settings> {
        let mut problems = Vec::new();
        let mut remarks = Vec::new();
        let mut wishes = Wishes::new();
        let mut assignments = match self.file.as_ref().map(ConfigFile::assignments).transpose() {
            Ok(assignments) => assignments.unwrap_or_default(),
            Err(problem) => return Err(refusal(&[problem])),
        };
        assignments.extend(self.environment.assignments);
        for (variable, raw) in self.environment.others {
            match sections.claim_variable(&variable) {
                Some(_) => assignments.push(Assignment {
                    scope: Scope::Node,
                    key: variable.clone(),
                    raw,
                    origin: Origin::Environment(variable),
                }),
                None => remarks.push(remark(&variable, sections.variables())),
            }
        }

        let mut node = Layered::new(NODE_KEYS, NodeDraft::default());
        let mut actors = Layered::new(ACTOR_KEYS, ActorSettings::default());
        let mut states = Layered::new(STATE_KEYS, StateOptions::default());
        let mut replicas = ReplicaWishes::default();
        let mut services: BTreeMap<String, Vec<Assignment>> = BTreeMap::new();
        let mut take = |assignment: Assignment, node: &mut Layered<NodeDraft>, actors: &mut Layered<ActorSettings>| {
            let taken = match &assignment.scope {
                Scope::Node => match whose(&assignment, node, &sections, &knowledge) {
                    Whose::Node => {
                        let tops = [&[DEFAULTS, SERVICES], sections.tops().as_slice()].concat();
                        node.assign(&assignment, &tops)
                    }
                    Whose::Section(path) => {
                        wishes.entry(path).or_default().push(assignment);
                        Ok(())
                    }
                    Whose::Unknown(remark) => {
                        if !remarks.contains(&remark) {
                            remarks.push(remark);
                        }
                        Ok(())
                    }
                    Whose::Nobody(text) => Err(Problem { place: assignment.origin, text }),
                },
                // No place says so before it is known which sections there are.
                Scope::Section(_) => Ok(()),
                Scope::Defaults => default(&assignment, actors, &mut states, &mut replicas),
                Scope::Service(name) => {
                    services.entry(name.clone()).or_default().push(assignment);
                    Ok(())
                }
            };
            problems.extend(taken.err());
        };
        for assignment in assignments {
            take(assignment, &mut node, &mut actors);
        }
        for step in steps {
            match step {
                Step::Node { keys, change } => node.change(Origin::Builder, keys, change),
                Step::Actors(change) => actors.change(Origin::Builder, &[], change),
                Step::Set { key, value } => take(Assignment::of_builder(&key, &value), &mut node, &mut actors),
            }
        }
        follow(&mut actors);
        problems.extend(contradiction(&node));
        problems.extend(check_actors("defaults", &actors));
        problems.extend(check_states("defaults", &states));
        problems.extend(replicas.check_defaults());

        let mut entries = node.entries(&Scope::Node);
        entries.extend(actors.entries(&Scope::Defaults));
        entries.extend(states.entries(&Scope::Defaults));
        entries.extend(replicas.entries(&Scope::Defaults));
        let defaults = Defaults { actors, states, replicas };
        let mut effective = BTreeMap::new();
        match &knowledge {
            Knowledge::Types(types) => {
                for declared in types {
                    let wishes = services.remove(&declared.name).unwrap_or_default();
                    let (settings, shown) = service(declared, &wishes, &defaults, &mut problems);
                    entries.extend(shown);
                    effective.insert(declared.name.clone(), settings);
                }
                problems.extend(strangers(&services, types));
            }
            Knowledge::Nothing => {
                for (name, wishes) in &services {
                    entries.extend(foreign_service(name, wishes, &defaults, &mut problems));
                }
            }
        }
        entries.extend(sections.judge(&wishes, &mut problems)?);
        if !problems.is_empty() {
            return Err(refusal(&problems));
        }
        Ok(Settings {
            node: node.value,
            services: effective,
            entries,
            file: self.file.map(|file| PathBuf::from(file.path())),
            remarks,
            wishes: Arc::new(wishes),
            contradicts_records: false,
        })
    }
}

/// Whose a key is that stands in no section of services.
enum Whose {
    Node,
    /// Of the sections at this path.
    Section(&'static str),
    /// Perhaps of a section of the application, which is not known here.
    Unknown(String),
    /// Nobody's, for this reason.
    Nobody(String),
}

fn whose(assignment: &Assignment, node: &Layered<NodeDraft>, sections: &Sections, knowledge: &Knowledge) -> Whose {
    let key = assignment.key.as_str();
    if let Origin::Environment(variable) = &assignment.origin {
        return sections.claim_variable(variable).map_or(Whose::Node, Whose::Section);
    }
    if node.names().any(|name| name == key) {
        return Whose::Node;
    }
    match sections.claim(key, &assignment.raw) {
        Claim::Section(path) => Whose::Section(path),
        Claim::Wrong(text) => Whose::Nobody(text),
        Claim::None => {
            let top = key.split('.').next().unwrap_or(key);
            let known: Vec<_> = tops().chain(sections.tops()).collect();
            let is_section = top != key || assignment.raw == Raw::Other("empty table");
            match knowledge {
                Knowledge::Nothing if is_section && nearest(top, known.iter().copied()).is_none() => Whose::Unknown(
                    format!("[{top}] is not known here and was not checked: a section of the application?"),
                ),
                _ => Whose::Node,
            }
        }
    }
}

/// The first parts of all keys of the node, and its sections.
fn tops() -> impl Iterator<Item = &'static str> {
    let keys = NODE_KEYS.iter().filter_map(|key| key.name.split('.').next());
    keys.chain([DEFAULTS, SERVICES])
}

/// Whether the first part of a place is of the node.
pub(super) fn is_taken(top: &str) -> bool {
    tops().any(|taken| taken == top)
}

/// What is said for all types.
struct Defaults {
    actors: Layered<ActorSettings>,
    states: Layered<StateOptions>,
    replicas: ReplicaWishes,
}

/// Takes what is said for all types.
fn default(
    assignment: &Assignment,
    actors: &mut Layered<ActorSettings>,
    states: &mut Layered<StateOptions>,
    replicas: &mut ReplicaWishes,
) -> Result<(), Problem> {
    match assignment.key.as_str() {
        "" => Ok(()),
        PERSISTENCE | PARTITIONS => Err(Problem {
            place: assignment.origin.clone(),
            text: format!(
                "{} cannot be set for all types, because it decides where the data of each is: write it below \
                 [{SERVICES}.NAME]",
                assignment.name()
            ),
        }),
        REPLICAS_MIN | REPLICAS_TARGET => replicas.take(assignment),
        key if is_state_key(key) => states.assign(assignment, &[]),
        _ => {
            let others: Vec<_> = states.names().chain([REPLICAS_MIN, REPLICAS_TARGET]).collect();
            actors.assign(assignment, &others)
        }
    }
}

/// Sections of services that do not exist: a name with a typing error would leave the real one without its settings.
fn strangers<'w>(
    services: &'w BTreeMap<String, Vec<Assignment>>,
    types: &'w [Declared],
) -> impl Iterator<Item = Problem> + 'w {
    services.iter().filter_map(|(name, wishes)| {
        let known: Vec<_> = types.iter().map(|declared| declared.name.as_str()).collect();
        let meant = nearest(name, known.iter().copied());
        let meant = meant.map_or(String::new(), |meant| format!(": did you mean {meant:?}?"));
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let place = wishes.first()?.origin.clone();
        let text = format!("this program has no service or actor type {name:?}{meant} (it has {known})");
        Some(Problem { place, text })
    })
}

/// Settings of the node that do not go together.
fn contradiction(node: &Layered<NodeDraft>) -> Option<Problem> {
    let error = node.value.replicas.check().err()?;
    let named = node.named_in(&error.to_string());
    Some(Problem { place: node.said_last(&named), text: error.to_string() })
}

/// Lets what was not said follow what was: without a word about it, idle actors are looked for as often as they need it.
fn follow(actors: &mut Layered<ActorSettings>) {
    if !actors.is_said("idle_scan") {
        actors.value.idle_scan = ActorSettings::default().idle_scan.min(actors.value.idle_timeout);
    }
}

/// Refuses settings of actors that cannot be, alone or together.
fn check_actors(section: &str, actors: &Layered<ActorSettings>) -> Option<Problem> {
    refused(section, actors, actors.value.check())
}

/// Refuses settings of collections that do not go together.
fn check_states(section: &str, states: &Layered<StateOptions>) -> Option<Problem> {
    refused(section, states, states.value.check())
}

/// What a look at all values together has found, with the place of the last of the keys that it names.
pub(super) fn refused<T>(section: &str, settings: &Layered<T>, checked: Result<()>) -> Option<Problem> {
    let error = checked.err()?;
    let named = settings.named_in(&error.to_string());
    Some(Problem { place: settings.said_last(&named), text: format!("{section}: {error}") })
}
