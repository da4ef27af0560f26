//! What can be set, and where each effective value comes from.
//!
//! One description of every setting (`Key`, in the tables of `node_keys`, `actor_keys` and `state_keys`) serves the file, the environment, the
//! builder, what is printed and the guide. A [`Section`] is such a table of a library or an application. The path of a value: `file` and `environment` turn what they find into
//! `Assignment`s → `Surroundings` lay them over each other, the later over the earlier, each checked by its key →
//! [`Settings`] has the effective values with their [`Origin`]s. Anything wrong is a `Problem` that names its place, and with
//! any problem nothing starts.

mod form;
mod nearest;
mod origin;
mod problem;
mod text;
mod value;

mod actor_keys;
mod cluster_keys;
mod key;
mod node_keys;
mod placement;
mod state_keys;

mod section;

mod assignment;
mod environment;
mod file;
mod resolve;

mod effective;

pub use cluster_keys::{CLUSTER_ADDRESS_DEFAULT, ClusterSettings, Profile, TlsMode};
pub use effective::{ServiceSettings, Setting, Settings, Sourced};
pub use environment::{CONFIG_VARIABLE, VARIABLE_PREFIX};
pub use file::{CONFIG_FILE_BYTES_MAX, CONFIG_FILE_DEFAULT};
pub use form::Form;
pub use key::Key;
pub use node_keys::DATA_DIR_DEFAULT;
pub use origin::Origin;
pub use placement::{REPLICAS_MAX, Replicas};
pub use resolve::Declared;
pub use section::Section;
pub use value::Value;

pub(crate) use node_keys::NodeDraft;
pub(crate) use resolve::{Knowledge, Step, Surroundings};
pub(crate) use section::{Names, Sections};

#[cfg(test)]
mod tests;
