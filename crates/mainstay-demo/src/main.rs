//! `cargo run --release -p mainstay-demo`: see the [library](mainstay_demo) for what it shows.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use mainstay_demo::{Finding, Options};

/// How it exits when nothing was acknowledged: neither a success nor a defect. 2 is for options that make no sense.
const NOTHING_PROVED: u8 = 3;

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("there is no runtime to run on: {error}")),
    };
    let ended = runtime.block_on(mainstay_demo::run(options));
    // Whoever has stopped it does not wait for a disk that hangs.
    runtime.shutdown_background();
    match ended {
        Ok(verdict) => match verdict.finding() {
            Finding::Proved => ExitCode::SUCCESS,
            Finding::NotProved => ExitCode::FAILURE,
            Finding::NothingProved => ExitCode::from(NOTHING_PROVED),
        },
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                text = format!("{text}\n  because: {error}");
                cause = error.source();
            }
            fail(&text)
        }
    }
}

fn fail(text: &str) -> ExitCode {
    // If nobody reads it, the exit code says enough.
    let _ = writeln!(std::io::stderr(), "mainstay-demo: {text}");
    ExitCode::FAILURE
}
