//! The `mainstay` command, for those who operate nodes.
//!
//! One file for each command. What a command finds goes to standard output, what is wrong to standard error; the exit code is
//! 0 if all is well, 1 if something is wrong that the command was asked about, and 2 if the command itself was wrong.

mod config;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks after nodes of Mainstay.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows and checks the configuration.
    #[command(subcommand)]
    Config(config::Command),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Config(command) => command.run(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("{}", error.report());
        ExitCode::FAILURE
    })
}
