//! A run from its beginning to its report.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cleanup::{self, Janitor};
use super::cluster::Cluster;
use super::fault::Fault;
use super::hosts::Hosts;
use super::loading::{Loading, Status};
use super::plan::{Round, plan};
use super::report::{Report, RoundReport};
use super::time::now;
use super::{Chaos, injector, shell};
use crate::command::{Outcome, cargo, run, target_dir};

/// How long the checkers may take.
const CHECK_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// How long the system may take to answer for the first time.
const START_TIME_MAX: Duration = Duration::from_secs(120);

/// A run.
#[derive(Debug)]
pub(super) struct Run {
    options: Chaos,
    begun: Instant,
}

impl Run {
    pub(super) fn new(options: Chaos) -> Self {
        Self { options, begun: now() }
    }

    /// Builds the application, runs the rounds, judges, reports, and cleans up.
    pub(super) fn go(mut self) -> Outcome {
        cleanup::clean_leftovers()?;
        let program = build(self.options.release)?;
        // What is built before does not count.
        self.begun = now();
        let owner = std::process::id();
        let folder = cleanup::run_folder(owner);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        let janitor = Janitor::start()?;
        let mut report = Report { seed: self.options.seed, nodes: self.options.nodes, ..Report::default() };
        let ended = self.attempt(&program, &folder, &mut report);
        if let Err(cause) = ended {
            report.violations.push(cause);
        }
        report.seconds = self.begun.elapsed().as_secs();
        let written = report.write(&folder.join("report.json"));
        let kept = (self.options.keep || !report.violations.is_empty()).then(|| self.keep(&folder)).transpose();
        let latest = report.write(&cleanup::folder().join("report.json"));
        drop(janitor);
        println!("{report}");
        println!("report: {}", cleanup::folder().join("report.json").display());
        if let Some(kept) = kept.and_then(|kept| written.and(latest).map(|()| kept))? {
            println!("histories and logs: {}", kept.display());
        }
        match report.violations.len() {
            0 => Ok(()),
            count => {
                Err(format!("violations: {count}; the same plan again: cargo xtask chaos {}", replay(&self.options)))
            }
        }
    }

    /// Everything that can end early. What it has started is gone when it returns.
    fn attempt(&self, program: &Path, folder: &Path, report: &mut Report) -> Outcome {
        let options = &self.options;
        let hosts = Hosts::create(std::process::id(), options.nodes, options.loopback)?;
        hosts.name().clone_into(&mut report.hosts);
        let faults = self.faults(&hosts, report);
        if faults.contains(&Fault::Delay) {
            report.not_shown.extend(hosts.network().into_iter().flat_map(|network| network.substitutes()));
        }
        println!("chaos: nodes: {}, on {}, seed {}", options.nodes, hosts.name(), options.seed);
        let has_small_disks = faults.contains(&Fault::DiskFull);
        let mut cluster = Cluster::start(program, folder, hosts, options.nodes, has_small_disks)?;
        let mut load = Loading::start(program, folder, &cluster, options)?;
        load.wait_until_whole(START_TIME_MAX, |_| cluster.supervise())?;
        let rounds = plan(options.seed, options.nodes, &faults, options.rounds);
        for (number, round) in (1..).zip(&rounds) {
            if self.is_over() {
                println!("the time is up: {} of {} rounds were run", number - 1, rounds.len());
                break;
            }
            let became = self.round(round, &mut cluster, &mut load, report);
            clear_line();
            let text = became.as_deref().unwrap_or("FAILED");
            println!("round {number}/{}: {round}: {text}", rounds.len());
            if let Err(cause) = became {
                report.violations.push(format!("round {number}, {round}: {cause}"));
                break;
            }
        }
        // Even if something has failed, what was written down is judged.
        if let Err(cause) = load.finish(Duration::from_secs(options.converge_seconds + 30)) {
            report.violations.push(cause);
        }
        if let Err(cause) = cluster.supervise() {
            report.violations.push(cause);
        }
        report.restarts = cluster.restarts;
        let history = load.history().to_owned();
        let journals = cluster.journals();
        drop((load, cluster));
        judge(program, &history, &journals, report)
    }

    /// The faults that were asked for and can be had; the others are named.
    fn faults(&self, hosts: &Hosts, report: &mut Report) -> Vec<Fault> {
        let asked = if self.options.faults.is_empty() { &Fault::ALL[..] } else { &self.options.faults };
        let mut faults = Vec::new();
        for fault in asked {
            match hosts.lacks(*fault) {
                Some(reason) => report.not_shown.push(format!("{fault}: {reason}")),
                None if !faults.contains(fault) => faults.push(*fault),
                None => {}
            }
        }
        faults
    }

    /// One fault, under load, until everything answers again; says how it went.
    fn round(&self, round: &Round, cluster: &mut Cluster, load: &mut Loading, report: &mut Report) -> Outcome<String> {
        let since = load.status(0)?.map_or(0, |(status, _)| status.at);
        let applied = injector::apply(round, cluster, |cluster| {
            if let Some((status, _)) = load.status(since)? {
                show(round, &status);
            }
            // A node that was killed is not there; one that has ended by itself is a finding.
            cluster.supervise()
        });
        // Healed in any case: what comes next is not to be about what was left.
        let healed_at = now();
        injector::heal(round, cluster)?;
        applied?;
        let limit = Duration::from_secs(self.options.converge_seconds);
        let whole = load.wait_until_whole(limit, |status| {
            show(round, status);
            cluster.supervise()
        });
        let pause_ms = load.status(since)?.map_or(0, |(_, pause)| pause);
        let whole_after_ms = whole.is_ok().then(|| healed_at.elapsed().as_millis());
        let (fault, text) = (round.fault, round.to_string());
        report.rounds.push(RoundReport { fault, text, whole_after_ms, pause_ms });
        let status = whole?;
        Ok(format!(
            "whole again after {} ms, longest pause {pause_ms} ms, {} ok, {} failed, {} unknown",
            whole_after_ms.unwrap_or_default(),
            status.ok,
            status.fail,
            status.unknown
        ))
    }

    fn is_over(&self) -> bool {
        self.options.minutes.is_some_and(|minutes| self.begun.elapsed() > Duration::from_secs(minutes * 60))
    }

    /// Takes what is worth looking at out of the way of the cleaning.
    fn keep(&self, folder: &Path) -> Outcome<PathBuf> {
        let kept = cleanup::folder().join(format!("kept-{}-{}", self.options.seed, std::process::id()));
        std::fs::rename(folder, &kept).map_err(|error| format!("{} cannot be kept: {error}", folder.display()))?;
        Ok(kept)
    }
}

/// Builds the application and says where it is.
fn build(is_release: bool) -> Outcome<PathBuf> {
    println!("building mainstay-chaos");
    let profile: &[&str] = if is_release { &["--release"] } else { &[] };
    run(&mut cargo(&[&["build", "--locked", "--package", "mainstay-chaos"], profile].concat()))?;
    let folder = if is_release { "release" } else { "debug" };
    let program = target_dir().join(folder).join(format!("mainstay-chaos{}", std::env::consts::EXE_SUFFIX));
    if program.is_file() { Ok(program) } else { Err(format!("{} was not built", program.display())) }
}

/// Has the checkers look at the history and the journals.
fn judge(program: &Path, history: &Path, journals: &Path, report: &mut Report) -> Outcome {
    let mut command = std::process::Command::new(program);
    command.arg("check").arg(history).arg("--journals").arg(journals).arg("--json");
    match shell::capture(&mut command, CHECK_TIME_MAX) {
        Ok(verdict) => report.judge(&verdict),
        // It exits with an error if there is a violation, and has said which.
        Err(cause) => match cause.find('{') {
            Some(at) => report.judge(&cause[at..]),
            None => Err(cause),
        },
    }
}

/// The options that give the same plan.
fn replay(options: &Chaos) -> String {
    let faults: Vec<_> = options.faults.iter().map(ToString::to_string).collect();
    let faults = if faults.is_empty() { String::new() } else { format!(" --faults {}", faults.join(",")) };
    format!("--nodes {} --rounds {} --seed {}{faults}", options.nodes, options.rounds, options.seed)
}

/// Shows how it goes on a line that is written over, where a person looks at it.
fn show(round: &Round, status: &Status) {
    let mut out = std::io::stdout();
    if out.is_terminal() {
        let Status { ok, fail, unknown, pause_ms, .. } = status;
        let _ = write!(out, "\r\x1b[2K{round}: {ok} ok, {fail} failed, {unknown} unknown, pause {pause_ms} ms");
        let _ = out.flush();
    }
}

/// Has the last line of a terminal be written over.
fn clear_line() {
    let mut out = std::io::stdout();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[2K");
        let _ = out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        chaos: Chaos,
    }

    fn parse(words: &str) -> Result<Chaos, clap::Error> {
        Line::try_parse_from(["chaos"].into_iter().chain(words.split_whitespace())).map(|line| line.chaos)
    }

    #[test]
    fn the_same_plan_is_run_again_by_the_options_that_are_printed() {
        let chaos = parse("--nodes 5 --rounds 9 --seed 4 --faults kill,cut-one-way,disk-full").unwrap();
        assert_eq!(replay(&chaos), "--nodes 5 --rounds 9 --seed 4 --faults kill,cut-one-way,disk-full");
        let again = parse(&replay(&chaos)).unwrap();
        let planned = |chaos: &Chaos| plan(chaos.seed, chaos.nodes, &chaos.faults, chaos.rounds);
        assert_eq!(planned(&chaos), planned(&again));
        assert!(parse("--nodes 2").is_err() && parse("--faults nonsense").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn what_the_checkers_object_to_is_in_the_report() {
        use std::os::unix::fs::PermissionsExt as _;

        let program = cleanup::folder().join(format!("test-checker-{}", std::process::id()));
        let judged = |script: &str| {
            std::fs::create_dir_all(cleanup::folder()).unwrap();
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            let mut report = Report::default();
            let outcome = judge(&program, Path::new("history"), Path::new("journals"), &mut report);
            std::fs::remove_file(&program).unwrap();
            outcome.map(|()| report.violations)
        };
        assert_eq!(judged("echo '{\"ok\": 3, \"violations\": []}'"), Ok(Vec::new()));
        let planted = judged("echo '{\"ok\": 3, \"violations\": [\"counter 1: lost\"]}'; exit 1");
        assert_eq!(planted, Ok(vec!["counter 1: lost".to_owned()]));
        let broken = judged("echo 'no such history' >&2; exit 1").unwrap_err();
        assert!(broken.contains("no such history"), "{broken}");
    }

    #[test]
    fn what_cannot_be_done_here_is_named_and_the_rest_is_done() {
        let hosts = Hosts::create(1, 1, true).unwrap();
        let mut report = Report::default();
        let faults = Run::new(parse("").unwrap()).faults(&hosts, &mut report);
        assert_eq!(faults, [Fault::Kill, Fault::Pause]);
        assert_eq!(report.not_shown.len(), Fault::ALL.len() - 2);
        let faults = Run::new(parse("--faults kill,kill").unwrap()).faults(&hosts, &mut Report::default());
        assert_eq!(faults, [Fault::Kill]);
    }
}
