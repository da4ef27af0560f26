//! The stages of a check.

use std::fmt;
use std::io;

use clap::ValueEnum;

use crate::command::{Outcome, cargo, run};
use crate::postgres;
use crate::tally::Tally;
use crate::tool;

/// Code that is compiled with a feature alone, and checked like all other.
const FEATURES: &str = "mainstay-sim/planted-bugs,mainstay-state/planted-bugs";

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
    /// Every unit, integration and documentation test passes
    Test,
}

impl Stage {
    /// What the stage makes sure of, as a heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Stage::Format => "formatting",
            Stage::Lint => "lints",
            Stage::Docs => "documentation",
            Stage::Deps => "dependency rules",
            Stage::Test => "tests",
        }
    }

    /// What to do when the stage has failed, apart from reading what it printed.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Stage::Format => "run `cargo xtask fix`",
            Stage::Lint => "run `cargo xtask fix` for what can be fixed by a program",
            Stage::Docs => "correct the comments named above",
            Stage::Deps => "drop the dependency, or give it an entry with a reason in deny.toml",
            Stage::Test => "a single test runs with `cargo test -p CRATE NAME`",
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
                let deny = tool::cargo_deny()?;
                // The advisory database is a git repository elsewhere, so the outcome would depend on the day and
                // on the network; deny.toml says how to look at it by hand.
                run(deny.command().args(["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]))
            }
            Stage::Test => {
                postgres::need()?;
                // Without `--all-targets`, which would leave the documentation tests out.
                tally.run(&mut cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]), &mut io::stdout())?;
                // In release, as people run the simulation: the same seeds, in a fraction of the time.
                for package in ["mainstay-sim", "mainstay-state"] {
                    let planted = ["--package", package, "--features", "planted-bugs", "--test", "planted_bugs"];
                    let args = [&["test", "--release", "--locked"], &planted[..]].concat();
                    tally.run(&mut cargo(&args), &mut io::stdout())?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No variant is skipped, so every one has a name.
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
