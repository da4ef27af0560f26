//! `cargo run --release -p mainstay-demo`: see the [library](mainstay_demo) for what it shows.

use std::process::ExitCode;

use clap::Parser as _;
use mainstay_demo::{Finding, Options};

/// How it exits when nothing was acknowledged: neither a success nor a defect. 2 is for options that make no sense.
const NOTHING_PROVED: u8 = 3;

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("mainstay-demo: there is no runtime to run on: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(mainstay_demo::run(options)) {
        Ok(verdict) => match verdict.finding() {
            Finding::Proved => ExitCode::SUCCESS,
            Finding::NotProved => ExitCode::FAILURE,
            Finding::NothingProved => ExitCode::from(NOTHING_PROVED),
        },
        Err(error) => {
            eprintln!("mainstay-demo: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}
