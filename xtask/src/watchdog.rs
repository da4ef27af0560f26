//! Ending a program that does not end by itself.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::command::output;

/// How often descendants are looked for again: one that is ended may have started others meanwhile.
const ROUNDS_MAX: usize = 10;

/// Watches over a process: ends it, with all that it has started, when its time is up.
///
/// Not by a process group of its own: a person who presses Ctrl-C means that group too.
pub(crate) struct Watchdog {
    /// Dropped when the process has ended.
    ended: SyncSender<()>,
    /// None where no thread can be had: then nobody watches, and the tests run all the same.
    thread: Option<JoinHandle<bool>>,
}

impl Watchdog {
    /// Begins to watch a process by its id.
    pub(crate) fn watch(process: u32, limit: Duration) -> Self {
        // Nothing is ever sent: its end is the message.
        let (ended, waiting) = mpsc::sync_channel(0);
        let watch = move || {
            let is_over = waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if is_over {
                end(process);
            }
            is_over
        };
        let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(watch).ok();
        Self { ended, thread }
    }

    /// Stops to watch, after the process has ended. True if its time was up.
    pub(crate) fn call_off(self) -> bool {
        drop(self.ended);
        self.thread.is_some_and(|thread| thread.join().unwrap_or(false))
    }
}

/// Ends a process and all of its descendants.
fn end(process: u32) {
    let mut found = BTreeSet::from([process]);
    for _ in 0..ROUNDS_MAX {
        let table = output(Command::new("ps").args(["-A", "-o", "pid=,ppid="])).unwrap_or_default();
        let before = found.len();
        add_descendants(&mut found, &table);
        kill(&found);
        if found.len() == before {
            return;
        }
    }
}

/// Adds the children, grandchildren and so on of the processes, by a table with a line `id parent` for each process.
fn add_descendants(found: &mut BTreeSet<u32>, table: &str) {
    let row = |line: &str| {
        let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    let rows: Vec<(u32, u32)> = table.lines().filter_map(row).collect();
    loop {
        let before = found.len();
        let children: Vec<_> = rows.iter().filter(|(_, parent)| found.contains(parent)).map(|(id, _)| *id).collect();
        found.extend(children);
        if found.len() == before {
            return;
        }
    }
}

fn kill(processes: &BTreeSet<u32>) {
    let ids = processes.iter().map(u32::to_string);
    // Those that have ended are remarked, which is of no interest.
    let _ = Command::new("kill").arg("-KILL").args(ids).stderr(Stdio::null()).status();
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};

    use super::*;

    #[test]
    fn descendants_are_found_in_any_order() {
        let mut found = BTreeSet::from([10]);
        add_descendants(&mut found, "  1  0\n 12 11\n 11 10\n 13 1\nnot a row\n 14 12\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [10, 11, 12, 14]);
    }

    #[test]
    fn a_process_is_ended_with_what_it_has_started() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sh -c 'sleep 1000 & echo $!; wait' & wait"]).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut grandchild = String::new();
        lines.read_line(&mut grandchild).unwrap();
        end(child.id());
        assert!(!child.wait().unwrap().success());
        // Its end is the end of what it could write: the grandchild has the same output.
        assert_eq!(lines.read_to_end(&mut Vec::new()).unwrap(), 0);
        // One that has ended and that nobody has asked about yet is a zombie.
        let state = output(Command::new("ps").args(["-o", "stat=", "-p", grandchild.trim()]));
        assert!(state.as_deref().is_none_or(|state| state.starts_with('Z')), "{state:?}");
    }

    #[test]
    fn what_ends_in_time_is_left_alone() {
        let mut child = Command::new("true").spawn().unwrap();
        let watchdog = Watchdog::watch(child.id(), Duration::from_secs(600));
        assert!(child.wait().unwrap().success());
        assert!(!watchdog.call_off());
    }
}
