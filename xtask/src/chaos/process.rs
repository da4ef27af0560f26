use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::shell::say;
use super::time::wait_for;
use crate::command::{Outcome, not_started};

/// How long a process may take to be gone when it was killed.
const GONE_TIME_MAX: Duration = Duration::from_secs(20);

/// How many of its last lines are told when it has ended by itself.
const TAIL_LINES: usize = 6;

/// How much of the end of its output is looked at: some minutes of what the load says.
const SAID_BYTES_MAX: u64 = 256 << 10;

/// A process of ours, whose output goes to a file. It is killed when dropped.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    log: PathBuf,
    /// How long the log was when it was started.
    log_before: u64,
    child: Child,
}

impl Process {
    /// Starts a program, with all that it says appended to a file.
    pub(super) fn start(name: &str, command: &mut Command, log: &Path) -> Outcome<Self> {
        let cannot = |error: std::io::Error| format!("the log {} cannot be written: {error}", log.display());
        let file = OpenOptions::new().create(true).append(true).open(log).map_err(cannot)?;
        let log_before = file.metadata().map_err(cannot)?.len();
        let errors = file.try_clone().map_err(cannot)?;
        let spawned = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        let child = spawned.map_err(|error| not_started(command, &error))?;
        Ok(Self { name: name.to_owned(), log: log.to_owned(), log_before, child })
    }

    /// Waits until it says a line that begins with a word.
    pub(super) fn wait_until_it_says(&mut self, word: &str, limit: Duration) -> Outcome {
        let name = self.name.clone();
        let look = || {
            if self.said()?.lines().any(|line| line.starts_with(word)) {
                return Ok(Some(()));
            }
            self.check_alive().map(|()| None)
        };
        wait_for(limit, look, || format!("{name} has not said {word:?}"))
    }

    /// An error if it has ended, with the end of what it said.
    pub(super) fn check_alive(&mut self) -> Outcome {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(format!("{} has ended by itself with {status}: {}", self.name, self.tail())),
        }
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&mut self) -> Outcome<Option<ExitStatus>> {
        self.child.try_wait().map_err(|error| format!("{} cannot be looked at: {error}", self.name))
    }

    /// Sends it a signal by its name, such as `STOP`.
    pub(super) fn signal(&self, signal: &str) -> Outcome {
        say(&format!("kill -{signal} {}", self.child.id())).map(drop)
    }

    /// Kills it and waits until it is gone.
    pub(super) fn kill(&mut self) -> Outcome {
        self.child.kill().map_err(|error| format!("{} cannot be killed: {error}", self.name))?;
        self.wait(GONE_TIME_MAX).map(drop)
    }

    /// Waits until it has ended.
    pub(super) fn wait(&mut self, limit: Duration) -> Outcome<ExitStatus> {
        let (name, child) = (&self.name, &mut self.child);
        let look = || child.try_wait().map_err(|error| format!("{name} cannot be waited for: {error}"));
        wait_for(limit, look, || format!("{name} has not ended"))
    }

    /// The last lines of what it has said to a person; lines for programs are JSON.
    pub(super) fn tail(&self) -> String {
        let said = self.said().unwrap_or_default();
        let lines: Vec<_> = said.lines().filter(|line| !line.starts_with('{') && !line.trim().is_empty()).collect();
        match lines.split_at_checked(lines.len().saturating_sub(TAIL_LINES)) {
            Some((_, [])) | None => "it said nothing".to_owned(),
            Some((_, last)) => last.join("; "),
        }
    }

    /// What it has said since it was started, or the end of it if that is long.
    pub(super) fn said(&self) -> Outcome<String> {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(self.log_before.max(length.saturating_sub(SAID_BYTES_MAX))))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().map_err(|error| format!("the log {} cannot be read: {error}", self.log.display()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that is stopped dies all the same.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::target_dir;

    fn shell(script: &str, log: &str) -> Process {
        let folder = target_dir().join("chaos");
        std::fs::create_dir_all(&folder).unwrap();
        let log = folder.join(format!("test-{log}-{}.log", std::process::id()));
        Process::start("the shell", Command::new("sh").args(["-c", script]), &log).unwrap()
    }

    #[test]
    fn what_a_process_says_is_waited_for_and_its_end_is_told() {
        let mut process = shell("echo ready now; sleep 1000", "says");
        process.wait_until_it_says("ready", Duration::from_secs(60)).unwrap();
        process.check_alive().unwrap();
        process.signal("STOP").unwrap();
        process.kill().unwrap();
        let error = process.check_alive().unwrap_err();
        assert!(error.contains("the shell has ended by itself") && error.contains("ready now"), "{error}");
        std::fs::remove_file(&process.log).unwrap();

        let mut process = shell("echo because >&2; exit 4", "ends");
        let error = process.wait_until_it_says("ready", Duration::from_secs(60)).unwrap_err();
        assert!(error.contains("exit status: 4") && error.contains("because"), "{error}");
        std::fs::remove_file(&process.log).unwrap();
    }
}
