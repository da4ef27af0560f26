//! Counting tests.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::command::{Outcome, judge, not_started};

/// How many tests have passed and failed, summed up from the closing lines of `cargo test`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Runs a program that runs tests, passes every line on and counts.
    ///
    /// No test at all is a failure: a check that checks nothing must not look like one that has passed.
    pub(crate) fn run(&mut self, command: &mut Command, screen: &mut impl Write) -> Outcome {
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| not_started(command, &error))?;
        let mut counted = Tally::default();
        let copied = match child.stdout.take() {
            Some(stdout) => counted.copy(BufReader::new(stdout), screen),
            None => Ok(()),
        };
        let status = child.wait().map_err(|error| format!("the tests could not be waited for: {error}"))?;
        if !status.success() && counted.failed == 0 {
            // It was not built, or a test took the whole program down: a closing line without a failure would be a lie.
            counted.failed = 1;
        }
        self.passed += counted.passed;
        self.failed += counted.failed;
        copied.map_err(|error| format!("the output of the tests could not be passed on: {error}"))?;
        judge(command, status)?;
        match counted {
            Tally { failed: 1.., .. } => Err(format!("{} tests failed", counted.failed)),
            Tally { passed: 0, .. } => Err("no test ran".to_owned()),
            _ => Ok(()),
        }
    }

    fn copy(&mut self, mut lines: impl BufRead, screen: &mut impl Write) -> std::io::Result<()> {
        // By bytes, because a test may print what is not text.
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            screen.write_all(&line)?;
            screen.flush()?;
            self.count(&String::from_utf8_lossy(&line));
            line.clear();
        }
        Ok(())
    }

    /// Adds a line like `test result: ok. 3 passed; 0 failed; …`; other lines change nothing.
    fn count(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        self.passed += number_before(result, " passed");
        self.failed += number_before(result, " failed");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap_or_default();
    let digits = before.rsplit(|character: char| !character.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &[u8]) -> (Tally, Vec<u8>) {
        let (mut tally, mut screen) = (Tally::default(), Vec::new());
        tally.copy(output, &mut screen).unwrap();
        (tally, screen)
    }

    #[test]
    fn closing_lines_are_summed_up_and_every_byte_is_passed_on() {
        let output =
            b"running 2 tests\n\xff\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 10 passed; 3 failed; 1 ignored; 0 measured; 7 filtered out; finished in 1.00s\n";
        let (tally, screen) = tally(output);
        assert_eq!(tally, Tally { passed: 12, failed: 3 });
        assert_eq!(tally.to_string(), "12 passed, 3 failed");
        assert_eq!(screen, output);
    }

    #[test]
    fn other_lines_are_not_counted() {
        let (tally, _) = tally(b"5 passed, 5 failed\n  test result: ok. 9 passed; 9 failed\ntest result: \n");
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn no_test_at_all_is_a_failure() {
        let outcome = Tally::default().run(&mut shell("true"), &mut Vec::new());
        assert_eq!(outcome, Err("no test ran".to_owned()));
    }

    #[test]
    fn no_test_is_a_failure_also_after_others_that_ran() {
        let mut tally = Tally::default();
        tally.run(&mut shell("echo 'test result: ok. 4 passed; 0 failed; 0 ignored'"), &mut Vec::new()).unwrap();
        assert_eq!(tally.run(&mut shell("true"), &mut Vec::new()), Err("no test ran".to_owned()));
        assert_eq!(tally, Tally { passed: 4, failed: 0 });
    }

    #[test]
    fn a_failed_test_is_a_failure_whatever_the_exit_code() {
        let mut tally = Tally::default();
        let outcome =
            tally.run(&mut shell("echo 'test result: FAILED. 4 passed; 1 failed; 0 ignored'"), &mut Vec::new());
        assert_eq!(outcome, Err("1 tests failed".to_owned()));
        assert_eq!(tally, Tally { passed: 4, failed: 1 });
    }

    #[test]
    fn a_failed_program_is_a_failure_whatever_it_counted() {
        let script = "echo 'test result: ok. 4 passed; 0 failed; 0 ignored'; exit 3";
        let mut tally = Tally::default();
        let error = tally.run(&mut shell(script), &mut Vec::new()).unwrap_err();
        assert!(error.contains("exit status: 3"), "{error}");
        assert_eq!(tally.to_string(), "4 passed, 1 failed", "a program that died is not a line without a failure");
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }
}
