//! The stages of a check.

use std::fmt;
use std::io;
use std::time::Duration;

use clap::ValueEnum;

use crate::command::{Outcome, cargo, program, run, run_within, target_dir};
use crate::postgres;
use crate::tally::{Tally, Verdict};
use crate::tool::{self, CARGO_DENY, CARGO_NEXTEST};

/// Code that is compiled with a feature alone, and checked like all other.
const FEATURES: &str = "mainstay-sim/planted-bugs,mainstay-state/planted-bugs";

/// What the simulation is run in: optimised, and with debug assertions.
const SIM_PROFILE: &str = "sim";

/// What is built in that profile: the simulation, and the tests that its checkers, and those of transactions, find known bugs.
const SIM_BUILD: &[&str] =
    &["--package", "mainstay-sim", "--package", "mainstay-state", "--features", FEATURES, "--test", "planted_bugs"];

/// How long the seeds may take. They need a few minutes; one that does not end would keep the check for ever.
const SIMULATION_TIME_MAX: Duration = Duration::from_secs(20 * 60);

/// How many seeds a check simulates that none has before.
const FRESH_SEEDS: &str = "3000";

/// The oldest Rust that everything builds with: `rust-version` of the workspace.
const RUST_OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// What applications name, by the arguments of cargo, and an application that names the façade alone. Each is built alone as
/// well: beside the others a room has features that they ask for, and may rely on one that it has forgotten to ask for itself.
const ALONE: &[&[&str]] = &[
    &["--package", "mainstay-governance"],
    &["--package", "mainstay"],
    &["--package", "mainstay", "--features", "governance"],
    &["--package", "mainstay-demo"],
];

/// How long the documentation tests may take. They are one program for each crate, which does not end one of them.
const DOC_TESTS_TIME_MAX: Duration = Duration::from_secs(20 * 60);

/// One stage of `cargo xtask check`. The order here is the order in which they run: what answers soonest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// The code is formatted as rustfmt would
    Format,
    /// Neither clippy nor the compiler has a warning, in code and in tests
    Lint,
    /// The API documentation builds without a warning
    Docs,
    /// Licences, banned crates and sources of dependencies follow deny.toml
    Deps,
    /// What the tests do not build: rooms alone, the targets for fuzzing, and everything with the oldest Rust
    Build,
    /// Every unit, integration and documentation test passes
    Test,
    /// No checker of the simulation objects, to seeds that failed once and to thousands of fresh ones
    Simulation,
}

impl Stage {
    /// What the stage makes sure of, as a heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Stage::Format => "formatting",
            Stage::Lint => "lints",
            Stage::Docs => "documentation",
            Stage::Deps => "dependency rules",
            Stage::Build => "builds",
            Stage::Test => "tests",
            Stage::Simulation => "simulation",
        }
    }

    /// What to do when the stage has failed, apart from reading what it printed.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Stage::Format => "run `cargo xtask fix`",
            Stage::Lint => "run `cargo xtask fix` for what can be fixed by a program",
            Stage::Docs => "correct the comments named above",
            Stage::Deps => "drop the dependency, or give it an entry with a reason in deny.toml",
            Stage::Build => "correct what the compiler named above",
            Stage::Test => "a single test runs with `cargo test -p CRATE NAME`",
            Stage::Simulation => {
                "replay the seed with the command above, and keep it in crates/mainstay-sim/regressions.txt"
            }
        }
    }

    /// Runs the stage, with what it prints passed on as it comes. The tests are counted into `tally`.
    pub(crate) fn run(self, tally: &mut Tally) -> Outcome {
        match self {
            Stage::Format => {
                tool::need_component("rustfmt")?;
                run(&mut cargo(&["fmt", "--all", "--check"]))
            }
            Stage::Lint => {
                tool::need_component("clippy")?;
                let workspace = ["clippy", "--workspace", "--all-targets", "--locked"];
                for features in [&[][..], &["--features", FEATURES]] {
                    run(&mut cargo(&[&workspace, features, &["--", "-D", "warnings"]].concat()))?;
                }
                Ok(())
            }
            Stage::Docs => {
                run(cargo(&["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"))
            }
            Stage::Deps => {
                let deny = CARGO_DENY.need()?;
                // The advisory database is a git repository elsewhere, so the outcome would depend on the day and
                // on the network; deny.toml says how to look at it by hand.
                run(deny.command().args(["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]))
            }
            Stage::Build => {
                for alone in ALONE {
                    run(&mut cargo(&[&["check", "--locked"], *alone].concat()))?;
                }
                build_fuzz_targets()?;
                build_with_oldest_rust()
            }
            Stage::Test => {
                postgres::need()?;
                let nextest = CARGO_NEXTEST.need()?;
                let mut test = |args: &[&str]| {
                    let run = ["nextest", "run", "--locked", "--no-fail-fast"];
                    // `.config/nextest.toml` has the time limit of each test.
                    tally.run(nextest.command().args(run).args(args), Verdict::Errors, None, &mut io::stderr())
                };
                test(&["--workspace"])?;
                test(&[&["--cargo-profile", SIM_PROFILE], SIM_BUILD].concat())?;
                let doc = &mut cargo(&["test", "--doc", "--workspace", "--locked", "--no-fail-fast"]);
                tally.run(doc, Verdict::Output, Some(DOC_TESTS_TIME_MAX), &mut io::stdout())
            }
            Stage::Simulation => {
                // The very build of the tests above, so that nothing is built twice.
                run(&mut cargo(&[&["test", "--locked", "--no-run", "--profile", SIM_PROFILE], SIM_BUILD].concat()))?;
                let simulation =
                    target_dir().join(SIM_PROFILE).join(format!("mainstay-sim{}", std::env::consts::EXE_SUFFIX));
                run_within(program(&simulation).arg("--regressions"), SIMULATION_TIME_MAX)?;
                run_within(program(&simulation).args(["--fresh", "--seeds", FRESH_SEEDS]), SIMULATION_TIME_MAX)
            }
        }
    }
}

/// Builds the targets for fuzzing as far as a stable compiler can: all but the linking, which needs a nightly one and a C++
/// compiler for libFuzzer.
fn build_fuzz_targets() -> Outcome {
    let target = target_dir().join("fuzz");
    run(cargo(&["check", "--locked", "--manifest-path", "fuzz/Cargo.toml"])
        .arg("--target-dir")
        .arg(&target)
        // Where libFuzzer is, so that it is not built. Nothing is linked, and so nothing looks there.
        .env("CUSTOM_LIBFUZZER_PATH", target.join("libfuzzer.a")))
}

/// Builds the workspace with the oldest Rust that it promises to build with.
fn build_with_oldest_rust() -> Outcome {
    let Some(toolchain) = tool::toolchain(RUST_OLDEST) else {
        // Clippy has refused what the standard library has got since, in the stage before. A later language is not seen.
        println!("NOT SHOWN: that everything builds with Rust {RUST_OLDEST}: rustup cannot install it here");
        return Ok(());
    };
    let target = target_dir().join("oldest");
    run(program("cargo").args([&toolchain, "check", "--workspace", "--locked", "--target-dir"]).arg(&target))
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No variant is skipped, so every one has a name.
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
