//! `cargo xtask fix`.

use crate::command::{self, Outcome, cargo};
use crate::tool;

/// Applies what clippy is sure of, then formats, because fixes are not formatted.
pub(crate) fn run() -> Outcome {
    tool::need_component("clippy")?;
    tool::need_component("rustfmt")?;
    // A person runs this in the middle of work, so uncommitted changes are the normal case.
    let clippy = ["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"];
    command::run(&mut cargo(&clippy))?;
    command::run(&mut cargo(&["fmt", "--all"]))
}
