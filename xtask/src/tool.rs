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

/// Makes sure that a component of the toolchain is there, and has rustup install it if it is not.
pub(crate) fn need_component(name: &str) -> Outcome {
    let subcommand = if name == "rustfmt" { "fmt" } else { name };
    let is_there = || output(&mut cargo(&[subcommand, "--version"])).is_some();
    if is_there() { Ok(()) } else { install_component(name, || program("rustup"), is_there) }
}

/// Has rustup install a component of the toolchain that runs us, which `is_there` looks for afterwards.
fn install_component(name: &str, rustup: impl Fn() -> Command, is_there: impl Fn() -> bool) -> Outcome {
    if output(rustup().arg("--version")).is_none() {
        return Err(format!(
            "{name} is not installed, and there is no rustup to install it: run `rustup component add {name}` where there \
             is one, or install it the way this toolchain was installed"
        ));
    }
    println!("{name} is not there: running `rustup component add {name}`");
    run(rustup().args(["component", "add", name]))
        .map_err(|cause| format!("{cause}; {name} can also be installed by hand: run `rustup component add {name}`"))?;
    if is_there() { Ok(()) } else { Err(format!("{name} was installed by rustup, but cargo does not find it")) }
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

    /// A script in the place of rustup, which answers only to what it is meant to be asked.
    fn rustup(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script, "rustup"]);
        command
    }

    #[test]
    fn a_missing_component_is_installed_by_rustup() {
        let script = "[ \"$*\" = --version ] || [ \"$*\" = 'component add clippy' ]";
        assert_eq!(install_component("clippy", || rustup(script), || true), Ok(()));
        let error = install_component("clippy", || rustup(script), || false).unwrap_err();
        assert!(error.contains("clippy was installed by rustup"), "{error}");
    }

    #[test]
    fn a_component_that_rustup_cannot_install_is_named_with_its_remedy() {
        let script = "[ \"$*\" = --version ] || exit 7";
        let error = install_component("rustfmt", || rustup(script), || true).unwrap_err();
        assert!(error.contains("exit status: 7") && error.contains("run `rustup component add rustfmt`"), "{error}");
    }

    #[test]
    fn without_rustup_a_missing_component_is_named_with_its_remedy() {
        let error = install_component("rustfmt", || program("no-such-program-anywhere"), || true).unwrap_err();
        assert!(error.contains("rustup component add rustfmt"), "{error}");
    }
}
