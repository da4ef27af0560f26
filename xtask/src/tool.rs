//! The programs that a check needs beyond cargo itself, found or installed.

use std::path::PathBuf;
use std::process::Command;

use crate::command::{Outcome, cargo, output, program, run, target_dir};

/// The version that is installed where no other is found; an equal or newer one on the path is used as it is.
const CARGO_DENY_VERSION: Version = Version([0, 20, 2]);

/// A program that is there.
#[derive(Debug)]
pub(crate) struct Tool {
    path: PathBuf,
}

impl Tool {
    /// A call of the tool.
    pub(crate) fn command(&self) -> Command {
        program(&self.path)
    }

    /// True if the tool runs and is new enough.
    fn is_at_least(&self, wanted: Version) -> bool {
        let printed = output(self.command().arg("--version"));
        printed.as_deref().and_then(Version::parse).is_some_and(|version| version >= wanted)
    }
}

/// Fails with the way to install a component of the toolchain if it is not there.
pub(crate) fn need_component(name: &str) -> Outcome {
    let subcommand = if name == "rustfmt" { "fmt" } else { name };
    match output(&mut cargo(&[subcommand, "--version"])) {
        Some(_) => Ok(()),
        None => Err(format!("{name} is not installed: run `rustup component add {name}`")),
    }
}

/// Finds `cargo-deny` on the path or among our own tools, or installs it there from source.
pub(crate) fn cargo_deny() -> Outcome<Tool> {
    let root = target_dir().join("tools");
    let ours = root.join("bin").join(format!("cargo-deny{}", std::env::consts::EXE_SUFFIX));
    for path in [PathBuf::from("cargo-deny"), ours.clone()] {
        let tool = Tool { path };
        if tool.is_at_least(CARGO_DENY_VERSION) {
            return Ok(tool);
        }
    }

    println!("cargo-deny {CARGO_DENY_VERSION} is not there: installing it from source into {}", root.display());
    println!("this happens once and takes a minute or two");
    let build = root.join("build");
    run(cargo(&["install", "--quiet", "--locked", "--debug", &format!("cargo-deny@{CARGO_DENY_VERSION}")])
        .arg("--root")
        .arg(&root)
        .arg("--target-dir")
        .arg(&build)
        // It runs for a second at a time, so a quick build is worth more than a quick program.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env_remove("RUSTFLAGS"))
    .map_err(|cause| format!("{cause}; cargo-deny can also be put on the path by hand"))?;
    // Half a gigabyte that nobody needs again; what cannot be removed does no harm.
    let _ = std::fs::remove_dir_all(build);

    let tool = Tool { path: ours };
    if tool.is_at_least(CARGO_DENY_VERSION) {
        Ok(tool)
    } else {
        Err(format!("cargo-deny was installed as {} but does not run", tool.path.display()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u64; 3]);

impl Version {
    /// Reads the last word of something like `cargo-deny 0.20.2`.
    fn parse(printed: &str) -> Option<Self> {
        let mut numbers = printed.split_whitespace().last()?.split('.').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self([next()?, next()?, next()?]))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Version([major, minor, patch]) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_by_number() {
        let version = |text| Version::parse(text).unwrap();
        assert_eq!(version("cargo-deny 0.20.2").to_string(), "0.20.2");
        assert!(version("cargo-deny 0.20.10") > version("cargo-deny 0.20.9"));
        assert!(version("cargo-deny 1.0.0") > CARGO_DENY_VERSION);
        assert!(version("cargo-deny 0.14.2") < CARGO_DENY_VERSION);
    }

    #[test]
    fn what_is_not_a_version_is_none() {
        for text in ["", "cargo-deny", "cargo-deny 1.2", "cargo-deny a.b.c"] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_not_new_enough() {
        let tool = Tool { path: "no-such-program-anywhere".into() };
        assert!(!tool.is_at_least(Version([0, 0, 0])));
    }

    #[test]
    fn a_missing_component_is_named_with_its_remedy() {
        let error = need_component("no-such-component").unwrap_err();
        assert!(error.contains("rustup component add no-such-component"), "{error}");
    }
}
