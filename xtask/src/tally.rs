//! Counting tests.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::{Outcome, judge, not_started, words};
use crate::watchdog::Watchdog;

/// How many tests have passed and failed, summed up from the closing lines of `cargo test` and of `cargo nextest`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
}

/// Where a program that runs tests says how they went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// `cargo test`, on its standard output.
    Output,
    /// `cargo nextest`, on its standard error.
    Errors,
}

impl Tally {
    /// Runs a program that runs tests, passes every line on and counts. After `limit` it is ended, if there is one.
    ///
    /// No test at all is a failure: a check that checks nothing must not look like one that has passed.
    pub(crate) fn run(
        &mut self,
        command: &mut Command,
        verdict: Verdict,
        limit: Option<Duration>,
        screen: &mut impl Write,
    ) -> Outcome {
        match verdict {
            Verdict::Output => command.stdout(Stdio::piped()),
            Verdict::Errors => command.stderr(Stdio::piped()),
        };
        let mut child = command.spawn().map_err(|error| not_started(command, &error))?;
        let watchdog = limit.map(|limit| (limit, Watchdog::watch(child.id(), limit)));
        let mut counted = Count::default();
        let copied = match (child.stdout.take(), child.stderr.take()) {
            (Some(lines), _) => counted.copy(BufReader::new(lines), screen),
            (None, Some(lines)) => counted.copy(BufReader::new(lines), screen),
            (None, None) => Ok(()),
        };
        let status = child.wait().map_err(|error| format!("the tests could not be waited for: {error}"))?;
        let time_is_up = watchdog.and_then(|(limit, watchdog)| watchdog.call_off().then_some(limit));
        let Count { mut tally, slow } = counted;
        if !status.success() && tally.failed == 0 {
            // It was not built, or a test took the whole program down: a closing line without a failure would be a lie.
            tally.failed = 1;
        }
        self.passed += tally.passed;
        self.failed += tally.failed;
        copied.map_err(|error| format!("the output of the tests could not be passed on: {error}"))?;
        if let Some(limit) = time_is_up {
            return Err(too_long(command, limit, &slow));
        }
        judge(command, status)?;
        match tally {
            Tally { failed: 1.., .. } => Err(format!("{} tests failed", tally.failed)),
            Tally { passed: 0, .. } => Err("no test ran".to_owned()),
            _ => Ok(()),
        }
    }
}

/// What to say of a program that was ended, with the tests that were still running.
fn too_long(command: &Command, limit: Duration, slow: &BTreeSet<String>) -> String {
    let running = match slow.is_empty() {
        true => "no test had been named as running for long".to_owned(),
        false => format!("these tests were running: {}", slow.iter().cloned().collect::<Vec<_>>().join(", ")),
    };
    format!("`{}` took longer than {} s and was ended: {running}", words(command), limit.as_secs())
}

/// What the lines of one program have said so far.
#[derive(Debug, Default)]
struct Count {
    tally: Tally,
    /// The tests that `cargo test` has named because they take long, and that have not ended.
    slow: BTreeSet<String>,
}

impl Count {
    fn copy(&mut self, mut lines: impl BufRead, screen: &mut impl Write) -> std::io::Result<()> {
        // By bytes, because a test may print what is not text.
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            screen.write_all(&line)?;
            screen.flush()?;
            self.take(&String::from_utf8_lossy(&line));
            line.clear();
        }
        Ok(())
    }

    fn take(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            // As in `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
            self.tally.passed += number_before(result, " passed");
            self.tally.failed += number_before(result, " failed");
        } else if let Some(summary) = nextest_summary(line) {
            self.tally.passed += number_before(summary, " passed");
            for ending in [" failed", " timed out", " exec failed"] {
                self.tally.failed += number_before(summary, ending);
            }
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some((name, _)) = test.split_once(" has been running for over ") {
                self.slow.insert(name.to_owned());
            } else if let Some((name, _)) = test.split_once(" ... ") {
                self.slow.remove(name);
            }
        }
    }
}

/// What follows the number of tests in a line like `     Summary [   0.5s] 5 tests run: 3 passed (1 slow), 1 failed, 1 timed
/// out, 0 skipped`.
fn nextest_summary(line: &str) -> Option<&str> {
    let (_, summary) = line.trim_start().strip_prefix("Summary [")?.split_once(']')?;
    let (run, summary) = summary.split_once(" run: ")?;
    run.trim_start().starts_with(|character: char| character.is_ascii_digit()).then_some(summary)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

fn number_before(text: &str, word: &str) -> u64 {
    let Some((before, _)) = text.split_once(word) else { return 0 };
    let digits = before.rsplit(|character: char| !character.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &[u8]) -> (Tally, Vec<u8>) {
        let (mut count, mut screen) = (Count::default(), Vec::new());
        count.copy(output, &mut screen).unwrap();
        (count.tally, screen)
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
        let outcome = run(&mut Tally::default(), "true");
        assert_eq!(outcome, Err("no test ran".to_owned()));
    }

    #[test]
    fn no_test_is_a_failure_also_after_others_that_ran() {
        let mut tally = Tally::default();
        run(&mut tally, "echo 'test result: ok. 4 passed; 0 failed; 0 ignored'").unwrap();
        assert_eq!(run(&mut tally, "true"), Err("no test ran".to_owned()));
        assert_eq!(tally, Tally { passed: 4, failed: 0 });
    }

    #[test]
    fn a_failed_test_is_a_failure_whatever_the_exit_code() {
        let mut tally = Tally::default();
        let outcome = run(&mut tally, "echo 'test result: FAILED. 4 passed; 1 failed; 0 ignored'");
        assert_eq!(outcome, Err("1 tests failed".to_owned()));
        assert_eq!(tally, Tally { passed: 4, failed: 1 });
    }

    #[test]
    fn a_failed_program_is_a_failure_whatever_it_counted() {
        let script = "echo 'test result: ok. 4 passed; 0 failed; 0 ignored'; exit 3";
        let mut tally = Tally::default();
        let error = run(&mut tally, script).unwrap_err();
        assert!(error.contains("exit status: 3"), "{error}");
        assert_eq!(tally.to_string(), "4 passed, 1 failed", "a program that died is not a line without a failure");
    }

    #[test]
    fn the_closing_line_of_nextest_is_counted() {
        let summary = |line: &str| tally(line.as_bytes()).0;
        assert_eq!(
            summary(
                "     Summary [   0.512s] 8 tests run: 3 passed (1 slow, 1 leaky), 2 failed, 1 timed out, 2 exec failed, 9 skipped\n"
            ),
            Tally { passed: 3, failed: 5 }
        );
        assert_eq!(
            summary("     Summary [   1.000s] 1 test run: 1 passed, 0 skipped\n"),
            Tally { passed: 1, failed: 0 }
        );
        assert_eq!(
            summary("     Summary [   1.000s] 2/12 tests run: 1 passed, 1 failed, 0 skipped\n"),
            Tally { passed: 1, failed: 1 }
        );
        assert_eq!(summary("Summary [of a test] which has run: 4 passed\n"), Tally::default());
    }

    #[test]
    fn what_takes_too_long_is_ended_and_has_failed() {
        let mut tally = Tally::default();
        let limit = Some(Duration::from_secs(1));
        let error = tally.run(&mut shell("sleep 1000"), Verdict::Output, limit, &mut Vec::new()).unwrap_err();
        assert!(error.contains("`sh -c sleep 1000` took longer than 1 s and was ended"), "{error}");
        assert_eq!(tally, Tally { passed: 0, failed: 1 });
    }

    #[test]
    fn tests_that_were_running_when_the_time_was_up_are_named() {
        let mut count = Count::default();
        for line in [
            "test one has been running for over 60 seconds\n",
            "test src/lib.rs - two (line 3) has been running for over 60 seconds\n",
            "test one ... ok\n",
        ] {
            count.take(line);
        }
        let said = too_long(&shell("true"), Duration::from_secs(60), &count.slow);
        assert!(said.ends_with("these tests were running: src/lib.rs - two (line 3)"), "{said}");
    }

    /// By nextest as it is here, with the settings of this repository and a shorter time.
    #[test]
    fn a_test_that_hangs_is_ended_and_has_failed() {
        let Some(nextest) = crate::tool::CARGO_NEXTEST.find() else {
            println!("cargo-nextest is not there: nothing is shown");
            return;
        };
        let root = crate::command::workspace_root();
        let settings = std::fs::read_to_string(root.join(".config/nextest.toml")).unwrap();
        let settings = settings.replace("\"60s\", terminate-after = 10", "\"1s\", terminate-after = 1");
        let folder = std::env::temp_dir().join(format!("xtask-hanging-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("src")).unwrap();
        let manifest = "[package]\nname = \"hanging\"\nedition = \"2024\"\n[workspace]\n";
        let code = "#[test] fn ends() {}\n#[test] fn hangs() { loop { std::thread::park() } }\n";
        for (file, text) in [("Cargo.toml", manifest), ("src/lib.rs", code), ("nextest.toml", &settings)] {
            std::fs::write(folder.join(file), text).unwrap();
        }
        let mut command = nextest.command();
        command.current_dir(&folder).args(["nextest", "run", "--config-file", "nextest.toml", "--no-fail-fast"]);
        // What cargo and nextest say of the run that this test is part of is not meant for the inner one.
        for (variable, _) in std::env::vars_os() {
            let text = variable.to_string_lossy();
            if text.starts_with("NEXTEST") || text == "CARGO_TARGET_DIR" {
                command.env_remove(&variable);
            }
        }
        let (mut tally, mut screen) = (Tally::default(), Vec::new());
        let outcome = tally.run(&mut command, Verdict::Errors, Some(Duration::from_secs(120)), &mut screen);
        let _ = std::fs::remove_dir_all(&folder);
        let said = String::from_utf8_lossy(&screen);
        assert!(outcome.is_err_and(|error| error.contains("nextest run")), "{said}");
        assert_eq!(tally, Tally { passed: 1, failed: 1 }, "{said}");
        assert!(said.lines().any(|line| line.contains("TIMEOUT") && line.contains("hangs")), "{said}");
    }

    fn run(tally: &mut Tally, script: &str) -> Outcome {
        tally.run(&mut shell(script), Verdict::Output, None, &mut Vec::new())
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }
}
