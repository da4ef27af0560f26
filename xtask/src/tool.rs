//! The programs that a check needs beyond cargo itself, found or installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Outcome, cargo, output, program, run, target_dir};

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

    /// The folder that it is in, unless it is on the path.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned)
    }

    /// True if the tool runs and is new enough.
    fn is_at_least(&self, wanted: Version, asked: &[&str]) -> bool {
        let printed = output(self.command().args(asked));
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

/// A subcommand of cargo that is built from source where it is not found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subcommand {
    name: &'static str,
    /// The version that is installed where no other is found; an equal or newer one on the path is used as it is.
    version: Version,
    /// How it is asked for its version.
    asked: &'static [&'static str],
}

/// Looks at licences and sources of dependencies.
pub(crate) const CARGO_DENY: Subcommand =
    Subcommand { name: "cargo-deny", version: Version([0, 20, 2]), asked: &["--version"] };

/// Runs each test in a process of its own, and ends it when its time is up.
pub(crate) const CARGO_NEXTEST: Subcommand =
    Subcommand { name: "cargo-nextest", version: Version([0, 9, 143]), asked: &["--version"] };

/// Changes the code in small ways, and sees whether a test notices. It answers as a subcommand of cargo alone.
pub(crate) const CARGO_MUTANTS: Subcommand =
    Subcommand { name: "cargo-mutants", version: Version([27, 1, 0]), asked: &["mutants", "--version"] };

impl Subcommand {
    /// The tool on the path or among our own, if it is there and new enough.
    pub(crate) fn find(self) -> Option<Tool> {
        let places = [PathBuf::from(self.name), self.place()];
        places.into_iter().map(|path| Tool { path }).find(|tool| tool.is_at_least(self.version, self.asked))
    }

    /// Finds the tool, or installs it among our own from source.
    pub(crate) fn need(self) -> Outcome<Tool> {
        let Self { name, version, asked } = self;
        if let Some(tool) = self.find() {
            return Ok(tool);
        }
        let root = root();
        println!("{name} {version} is not there: installing it from source into {}", root.display());
        println!("this happens once and takes a few minutes");
        let build = root.join("build");
        run(cargo(&["install", "--quiet", "--locked", "--debug", &format!("{name}@{version}")])
            .arg("--root")
            .arg(&root)
            .arg("--target-dir")
            .arg(&build)
            // It runs for a short time, so a quick build is worth more than a quick program.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env_remove("RUSTFLAGS"))
        .map_err(|cause| format!("{cause}; {name} can also be put on the path by hand"))?;
        // Half a gigabyte that nobody needs again; what cannot be removed does no harm.
        let _ = std::fs::remove_dir_all(build);

        let tool = Tool { path: self.place() };
        if tool.is_at_least(version, asked) {
            Ok(tool)
        } else {
            Err(format!("{name} was installed as {} but does not run", tool.path.display()))
        }
    }

    /// Where it is among our own tools.
    fn place(self) -> PathBuf {
        root().join("bin").join(format!("{}{}", self.name, std::env::consts::EXE_SUFFIX))
    }
}

/// The folder of our own tools.
fn root() -> PathBuf {
    target_dir().join("tools")
}

/// The toolchain of this version of Rust as cargo's first argument (`+1.92`), installed by rustup if need be; `None` if there
/// is none and none can be had here.
pub(crate) fn toolchain(version: &str) -> Option<String> {
    let chosen = format!("+{version}");
    let is_there = || output(program("cargo").args([&chosen, "--version"])).is_some();
    if !is_there() {
        println!("Rust {version} is not there: running `rustup toolchain install {version}`");
        let install = ["toolchain", "install", version, "--profile", "minimal", "--no-self-update"];
        if let Err(cause) = run(program("rustup").args(install)) {
            println!("{cause}");
        }
    }
    is_there().then_some(chosen)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u64; 3]);

impl Version {
    /// Reads the second word of something like `cargo-deny 0.20.2` or `cargo-nextest 0.9.143 (60fa45f63 2026-08-04)`.
    fn parse(printed: &str) -> Option<Self> {
        let mut numbers = printed.split_whitespace().nth(1)?.split('.').map(str::parse);
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
        assert!(version("cargo-deny 1.0.0") > CARGO_DENY.version);
        assert!(version("cargo-deny 0.14.2") < CARGO_DENY.version);
        assert!(
            version("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)\nrelease: 0.9.143\nhost: x") >= CARGO_NEXTEST.version
        );
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
        assert!(!tool.is_at_least(Version([0, 0, 0]), &["--version"]));
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
