//! `mainstay-bench SECTION`: measures a part of Mainstay against its goals and against named peers.
//!
//! A [section](section::Section) enters contenders in a [contest](contest::Contest), which measures them in turns;
//! the [report](report::Report) prints tables for people and one line per goal for programs. Ratios within one run
//! decide, never absolute times, and a missed goal is a line and not a failure.

mod section;
mod settings;

mod contest;
mod goal;
mod json_file;
mod load;
mod measurement;
mod outcome;
mod process;
mod report;
mod scratch;
mod shuffled;
mod stopwatch;
mod table;

mod actors;
mod collections;
mod foundations;
mod governance;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use json_file::JsonFile;
use outcome::{Outcome, explain};
use section::Section;
use settings::Settings;

/// Measures Mainstay against its goals and named peers.
///
/// Prints a table, and for every goal one line `goal NAME VALUE TARGET met` or `… missed`. Figures are medians of three
/// rounds; contenders take turns. Missed goals do not change the exit code.
#[derive(Debug, Parser)]
#[command(name = "mainstay-bench", version)]
struct Arguments {
    /// The section to run; --list shows what there is
    section: Option<String>,

    /// Run only this bench of the section (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// One short round, to see that everything works; the figures mean little
    #[arg(long)]
    quick: bool,

    /// Write the report to a file as JSON too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Where to put data: a real disk [default: beside the program]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// List the sections and their benches
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.split_first() {
        Some((first, rest)) if first == process::CHILD => section::child(rest),
        _ => run(Arguments::parse()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mainstay-bench: {}", explain(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Outcome<()> {
    if arguments.list {
        println!("{}", section::list());
        return Ok(());
    }
    let Some(name) = &arguments.section else {
        return Err(format!("say which section to run: mainstay-bench SECTION\n\n{}", section::list()).into());
    };
    let section = Section::find(name)?;
    let dir = arguments.dir.unwrap_or_else(scratch::default_dir);
    let settings = Settings { quick: arguments.quick, only: arguments.only, dir };
    if cfg!(debug_assertions) {
        eprintln!("this is a debug build, its figures mean nothing: use cargo run --release");
    }
    // Before anything is measured, because that takes long.
    let json = arguments.json.map(JsonFile::create).transpose()?;
    let report = section.run(&settings)?;
    // Before it is printed, because whoever reads may have seen enough.
    if let Some(json) = json {
        json.write(&report)?;
    }
    report.print(&mut std::io::stdout().lock())?;
    Ok(())
}
