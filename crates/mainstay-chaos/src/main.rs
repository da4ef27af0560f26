//! `mainstay-chaos`: see the [library](mainstay_chaos) for what it is, and `cargo xtask chaos` for who runs it.
#![allow(
    clippy::disallowed_methods,
    reason = "built as an application is: its tasks and its clock are tokio's and the system's"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mainstay::prelude::*;
use mainstay_chaos::gateway::Gateways;
use mainstay_chaos::load::LoadOptions;
use mainstay_chaos::node::NodeOptions;
use mainstay_chaos::{check, history, load, node};
use tokio::sync::watch;

/// How it exits when nothing was answered: neither a success nor a defect. 2 is for options that make no sense.
const NOTHING_SHOWN: u8 = 3;

/// The application that is killed, cut off and judged.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Runs a node until it is told to end; says `ready` when it can be called, and exits with 75 if it must be started again
    Node(NodeOptions),
    /// Calls the nodes and writes a history; says how it goes on its output
    Load {
        /// The gateways of the nodes, as HOST:PORT
        #[arg(long, value_delimiter = ',', required = true)]
        gateways: Vec<String>,
        #[command(flatten)]
        options: LoadOptions,
    },
    /// Judges histories: exits with 0 if there is no violation, 1 if there is, 3 if nothing was shown
    Check {
        /// The histories, all of one system from its beginning
        #[arg(required = true)]
        histories: Vec<PathBuf>,
        /// The folder of the journals
        #[arg(long)]
        journals: PathBuf,
        /// Prints the verdict as JSON
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let role = Arguments::parse().role;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: there is no runtime to run on: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(role));
    // A disk that hangs does not keep the process.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| {
        eprintln!("error: {}", error.report());
        ExitCode::FAILURE
    })
}

async fn run(role: Role) -> Result<ExitCode> {
    match role {
        Role::Node(options) => {
            if !node::run(&options).await? {
                return Ok(ExitCode::from(node::STOPPED_EXIT_CODE));
            }
        }
        Role::Load { gateways, options } => {
            let gateways = Gateways::new(gateways)?;
            let target = |caller| gateways.clone().starting_at(caller);
            let tell = |status: &load::Status| {
                if let Ok(line) = serde_json::to_string(status) {
                    println!("{line}");
                }
            };
            load::run(&options, target, stop_when_told()?, tell).await?;
        }
        Role::Check { histories, journals, json } => {
            let verdict = check::check(&history::read(&histories)?, &journals)?;
            if json {
                let text = serde_json::to_string_pretty(&verdict);
                println!("{}", text.or_error(ErrorKind::Fatal, "the verdict cannot be written as text")?);
            } else {
                println!("{verdict}");
            }
            return Ok(match (verdict.violations.is_empty(), verdict.ok) {
                (true, 0) => ExitCode::from(NOTHING_SHOWN),
                (true, _) => ExitCode::SUCCESS,
                (false, _) => ExitCode::FAILURE,
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Becomes true when the process is told to end.
#[cfg(unix)]
fn stop_when_told() -> Result<watch::Receiver<bool>> {
    use tokio::signal::unix::{SignalKind, signal};

    let (stop, stopped) = watch::channel(false);
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind).or_error(ErrorKind::Fatal, "the process cannot be told to end by a signal")?;
        let stop = stop.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                stop.send_replace(true);
            }
        });
    }
    Ok(stopped)
}

/// Where there are no signals, the time says when it ends.
#[cfg(not(unix))]
fn stop_when_told() -> Result<watch::Receiver<bool>> {
    Ok(watch::channel(false).1)
}
