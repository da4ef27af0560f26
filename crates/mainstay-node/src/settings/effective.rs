use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay_core::partitioning::Partitioning;
use mainstay_core::{Level, Result};
use mainstay_replica::UniformSetsOptions;
use mainstay_runtime::{ActorSettings, StateOptions};

use super::assignment::{Scope, file_key};
use super::node_keys::NodeDraft;
use super::origin::Origin;
use super::placement::{PARTITIONS, PERSISTENCE, REPLICAS_MIN, REPLICAS_ON_ONE_NODE, REPLICAS_TARGET, Replicas};
use super::section::{Section, Wishes};
use super::value::Value;
use crate::registry::RecordedService;

/// The effective settings of a node. `Display` gives a table of all of them with where each comes from.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(super) node: NodeDraft,
    pub(super) services: BTreeMap<String, ServiceSettings>,
    pub(super) entries: Vec<Setting>,
    pub(super) file: Option<PathBuf>,
    pub(super) remarks: Vec<String>,
    pub(super) contradicts_records: bool,
    /// What was said about sections of libraries and of the application.
    pub(super) wishes: Arc<Wishes>,
}

/// One effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name, with its section: `services.CounterActor.mailbox`.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// A value with where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

/// The effective settings of a service or actor type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    /// The name of the type.
    pub name: String,
    /// How its state is kept.
    pub level: Sourced<Level>,
    /// How it is cut.
    pub partitioning: Sourced<Partitioning>,
    /// How many replicas keep its state. With one node there is one.
    pub replicas: Replicas,
    /// How its actors behave; `None` for a service, which has none.
    pub actor: Option<ActorSettings>,
    /// How its collections are kept; `None` for an actor type, which has none.
    pub state: Option<StateOptions>,
}

impl Settings {
    /// The same with another data folder, which somebody named on the command line.
    #[must_use]
    pub fn with_data_dir(mut self, folder: PathBuf) -> Self {
        for entry in self.entries.iter_mut().filter(|entry| entry.key == "data_dir") {
            (entry.value, entry.origin) = (Value::Path(folder.clone()), Origin::CommandLine);
        }
        self.node.data_dir = folder;
        self
    }

    /// Adds what a data folder has recorded of its services, and a remark for each that is set otherwise: a node would
    /// refuse to start.
    #[must_use]
    pub fn with_records(mut self, records: &[RecordedService]) -> Self {
        for record in records {
            let scope = Scope::Service(record.name.clone());
            let recorded = [
                (scope.full(PERSISTENCE), Value::Level(record.level)),
                (scope.full(PARTITIONS), Value::Partitioning(record.partitioning.clone())),
            ];
            for (key, value) in recorded {
                let set = self.entries.iter().find(|entry| entry.key == key && !agrees(&entry.value, &value));
                let remark = set.map(|set| {
                    format!(
                        "{key} is {value} in the data folder and {} by {}: a node will refuse to start",
                        set.value, set.origin
                    )
                });
                self.contradicts_records |= remark.is_some();
                self.remarks.extend(remark);
                self.entries.push(Setting { key, value, origin: Origin::Recorded });
            }
        }
        self
    }

    /// True if something is set otherwise than the data folder has it, so that a node would refuse to start.
    pub fn contradicts_records(&self) -> bool {
        self.contradicts_records
    }

    /// Where the data is.
    pub fn data_dir(&self) -> &Path {
        &self.node.data_dir
    }

    /// Where the admin server listens, if it does.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.node.admin_address
    }

    /// How log, stores and replicas behave.
    pub fn host_options(&self) -> &UniformSetsOptions {
        &self.node.replicas
    }

    /// The settings of a service or actor type.
    pub fn service(&self, name: &str) -> Option<&ServiceSettings> {
        self.services.get(name)
    }

    /// The effective values of a [section](Section) of a library or of the application: what the code says, and over it what file,
    /// environment and builder say. Objects within the node find the settings by `ctx.provided::<Settings>()`.
    ///
    /// # Errors
    /// `Invalid` if what was said does not go together with what the code says, with its place. If the node was given the
    /// section with the same values ([`NodeBuilder::section`](crate::NodeBuilder::section)), it has been checked at the start.
    pub fn section<T>(&self, section: Section<T>, code: T) -> Result<T> {
        self.effective(&section, None, code)
    }

    /// The same of a section with a name: `[shop.shelves.NAME]`.
    ///
    /// # Errors
    /// As [`section`](Settings::section).
    pub fn section_named<T>(&self, section: Section<T>, name: &str, code: T) -> Result<T> {
        self.effective(&section, Some(name), code)
    }

    fn effective<T>(&self, section: &Section<T>, name: Option<&str>, code: T) -> Result<T> {
        match self.wishes.get(section.path) {
            None => Ok(code),
            Some(wishes) => section.effective(name, code, wishes),
        }
    }

    /// Every effective value: those of the node, the defaults of actors and services, each service, then sections of libraries
    /// and of the application.
    pub fn entries(&self) -> &[Setting] {
        &self.entries
    }

    /// The configuration file, if one was read.
    pub fn config_file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What looks like a mistake and refuses nothing.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// All of it for programs.
    pub fn to_json(&self) -> serde_json::Value {
        let entries: Vec<_> = self.entries.iter().map(Setting::to_json).collect();
        serde_json::json!({
            "file": self.file.as_ref().map(|file| file.display().to_string()),
            "settings": entries,
            "remarks": self.remarks,
        })
    }
}

/// Whether a value fits what is recorded; the file has partitions as a number.
fn agrees(set: &Value, recorded: &Value) -> bool {
    match (set, recorded) {
        (Value::Count(count), Value::Partitioning(Partitioning::Uniform { count: recorded, .. })) => {
            *count == u64::from(*recorded)
        }
        (set, recorded) => set == recorded,
    }
}

impl Setting {
    /// What a node does instead, where it cannot do what is set: with one node there is one replica of everything.
    pub fn in_force(&self) -> Option<Value> {
        let in_force = Value::Count(u64::from(REPLICAS_ON_ONE_NODE));
        let names_replicas = [REPLICAS_MIN, REPLICAS_TARGET].iter().any(|name| {
            // Below a section, as all of them are.
            self.key.strip_suffix(name).is_some_and(|section| section.ends_with('.'))
        });
        (names_replicas && self.value != in_force).then_some(in_force)
    }

    /// The setting for programs.
    pub fn to_json(&self) -> serde_json::Value {
        let mut origin = serde_json::json!({ "kind": self.origin.kind() });
        match &self.origin {
            Origin::File { path, line } => {
                origin["path"] = path.display().to_string().into();
                origin["line"] = (*line).into();
            }
            Origin::Environment(variable) => origin["variable"] = variable.as_str().into(),
            _ => {}
        }
        let mut setting = serde_json::json!({ "key": self.key, "value": self.value.to_json(), "origin": origin });
        if let Some(in_force) = self.in_force() {
            setting["in_force"] = in_force.to_json();
        }
        setting
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => writeln!(f, "# settings with {}", file.display())?,
            None => writeln!(f, "# settings without a configuration file")?,
        }
        write_table(f, &self.entries)?;
        self.remarks.iter().try_for_each(|remark| writeln!(f, "# {remark}"))
    }
}

/// In the form of the file. What a file cannot say, or has said already, is a comment.
fn write_table(f: &mut fmt::Formatter<'_>, entries: &[Setting]) -> fmt::Result {
    let mut said = BTreeSet::new();
    let lines: Vec<_> = entries
        .iter()
        .map(|setting| {
            let Setting { key, value, origin } = setting;
            let mark = if value.is_for_file() && said.insert(key) { "" } else { "# " };
            let note = setting.in_force().map_or(String::new(), |in_force| format!("; {in_force} on one node"));
            (format!("{mark}{}", file_key(key)), value.to_string(), format!("{origin}{note}"))
        })
        .collect();
    let keys = lines.iter().map(|(key, ..)| key.chars().count()).max().unwrap_or(0);
    let values = lines.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or(0);
    lines.iter().try_for_each(|(key, value, origin)| writeln!(f, "{key:keys$} = {value:values$}  # {origin}"))
}
