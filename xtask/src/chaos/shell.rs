//! Small programs of the system, each within a time limit, with what they say if they fail.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::{Outcome, not_started, words};
use crate::watchdog::Watchdog;

/// How long a small program may take: `ip`, `tc`, `mount` and the like answer at once.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Runs a program, given as words in one line, and returns what it prints.
pub(super) fn say(line: &str) -> Outcome<String> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    capture(&mut command, TIME_MAX)
}

/// Runs a program to its end, and returns what it prints; what it says of its failure is part of the error.
pub(super) fn capture(command: &mut Command, limit: Duration) -> Outcome<String> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = spawned.map_err(|error| not_started(command, &error))?;
    let watchdog = Watchdog::watch(child.id(), limit);
    let ended = child.wait_with_output();
    let is_overdue = watchdog.call_off();
    let output = ended.map_err(|error| format!("`{}` could not be waited for: {error}", words(command)))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if is_overdue {
        return Err(format!("`{}` took longer than {} s and was ended", words(command), limit.as_secs()));
    }
    if output.status.success() {
        return Ok(text);
    }
    let said = [String::from_utf8_lossy(&output.stderr).trim().to_owned(), text.trim().to_owned()];
    let said: Vec<_> = said.into_iter().filter(|part| !part.is_empty()).collect();
    Err(format!("`{}` ended with {}: {}", words(command), output.status, said.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_words_of_the_program() {
        assert_eq!(say("echo one two"), Ok("one two\n".to_owned()));
        let error = capture(Command::new("sh").args(["-c", "echo because >&2; exit 3"]), TIME_MAX).unwrap_err();
        assert!(error.contains("exit status: 3: because"), "{error}");
        assert!(say("no-such-program-anywhere x").unwrap_err().contains("could not be started"));
        let slow = capture(Command::new("sleep").arg("1000"), Duration::from_millis(50)).unwrap_err();
        assert!(slow.contains("took longer"), "{slow}");
    }
}
