//! This process as the operating system sees it, and fresh copies of it.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::outcome::Outcome;

/// The hidden first argument of a copy of this program that measures one thing from the inside.
pub(crate) const CHILD: &str = "__child";

/// The time that all threads of this process together have spent on cores.
pub(crate) fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    // Both are counted from the start of the process and normalised by the system.
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// The memory of this process that is in use now and was at its peak, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Memory {
    pub(crate) resident: f64,
    pub(crate) peak: f64,
}

impl Memory {
    /// # Errors
    /// On a system without `/proc`.
    pub(crate) fn now() -> Outcome<Self> {
        let path = "/proc/self/status";
        let status = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        Self::parse(&status).ok_or_else(|| format!("{path} does not say how much memory is in use").into())
    }

    fn parse(status: &str) -> Option<Self> {
        let mebibytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kibibytes: f64 = line.split_whitespace().next()?.parse().ok()?;
            Some(kibibytes / 1024.0)
        };
        Some(Self { resident: mebibytes("VmRSS:")?, peak: mebibytes("VmHWM:")? })
    }
}

/// Starts this program anew for one measurement and returns the figures that it prints, one word each.
///
/// # Errors
/// If it cannot be started, fails, or prints anything else.
pub(crate) fn child(arguments: &[&str]) -> Outcome<Vec<f64>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("the copy of this program for {arguments:?} failed ({})", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let figures: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    figures.map_err(|_| format!("the copy of this program for {arguments:?} printed {text:?}, not figures").into())
}

/// As [`child`], for a measurement with one figure.
///
/// # Errors
/// Those of [`child`], and if it prints none.
pub(crate) fn figure(arguments: &[&str]) -> Outcome<f64> {
    let figures = child(arguments)?;
    figures
        .first()
        .copied()
        .ok_or_else(|| format!("the copy of this program for {arguments:?} printed no figure").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status() {
        let status = "Name:\tx\nVmPeak:\t  99 kB\nVmHWM:\t    4096 kB\nVmRSS:\t    2048 kB\n";
        assert_eq!(Memory::parse(status), Some(Memory { resident: 2.0, peak: 4.0 }));
        assert_eq!(Memory::parse("VmRSS: many\nVmHWM: 1 kB"), None);
        assert_eq!(Memory::parse(""), None);
    }

    #[test]
    fn work_takes_cpu_time() {
        let before = cpu_time();
        let mut sum = 0_u64;
        while cpu_time() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_time() > before);
    }
}
