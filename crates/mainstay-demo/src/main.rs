//! `cargo run --release -p mainstay-demo`: see the [library](mainstay_demo) for what it shows.

use std::process::ExitCode;

use clap::Parser as _;
use mainstay_demo::Options;

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
        Ok(verdict) if verdict.is_proved() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
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
