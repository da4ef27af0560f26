//! The chores of this repository, as `cargo xtask <chore>`.
//!
//! `check` is what continuous integration and a person run before a change goes in; in the repository it writes nothing
//! but build output, and it installs tools that it needs and does not find. `fix` repairs what a program can repair.
//! `mutants` is run by hand: it says which changes of the code no test would notice. `chaos` runs real processes under faults. The rules that are about this
//! repository itself (which crate may use which, which documents must agree) are tests of this package, so that `check`
//! runs them with all the others.

mod chaos;
mod check;
mod command;
mod fix;
mod mutants;
mod postgres;
mod report;
mod stage;
mod tally;
mod tool;
mod watchdog;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::chaos::Chaos;
use crate::check::Check;
use crate::mutants::Mutants;

/// The chores of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Checks formatting, lints, docs, dependency rules, builds and every test; changes no file of yours
    Check(Check),
    /// Formats the code and applies the fixes that clippy is sure of
    Fix,
    /// Changes the code of core rooms in small ways, and names the changes that no test notices; takes long
    Mutants(Mutants),
    /// Runs real processes under load, kills, pauses and cuts them off, and checks what callers were told
    Chaos(Chaos),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Check(check) => check.run(),
        Chore::Fix => fix::run(),
        Chore::Mutants(mutants) => mutants.run(),
        Chore::Chaos(chaos) => chaos.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
