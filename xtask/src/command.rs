//! Running other programs in this workspace.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::watchdog::Watchdog;

/// Nothing, or what went wrong in words.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// The folder of the workspace.
pub(crate) fn workspace_root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// The folder for what is built.
pub(crate) fn target_dir() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace_root().join(named)
}

/// A call of the cargo that runs us.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// A program that will run in the folder of the workspace, as if a person had called it.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(workspace_root());
    // Cargo describes this package to us in variables that build scripts of other packages watch: passed on, they
    // would be rebuilt each time a person and a chore take turns.
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&variable);
        }
    }
    command
}

/// Runs a program to its end, with what it prints passed on.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| not_started(command, &error))?;
    judge(command, status)
}

/// [`run`], and ends the program when its time is up.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Outcome {
    let mut child = command.spawn().map_err(|error| not_started(command, &error))?;
    let watchdog = Watchdog::watch(child.id(), limit);
    let ended = child.wait();
    if watchdog.call_off() {
        return Err(format!("`{}` took longer than {} s and was ended", words(command), limit.as_secs()));
    }
    judge(command, ended.map_err(|error| format!("`{}` could not be waited for: {error}", words(command)))?)
}

/// What a program prints, if it runs and succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Turns how a program has ended into an outcome.
pub(crate) fn judge(command: &Command, status: ExitStatus) -> Outcome {
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", words(command))) }
}

/// The outcome of a program that could not be started.
pub(crate) fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("`{}` could not be started: {error}", words(command))
}

/// A call as a person would write it.
pub(crate) fn words(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_failed_program_is_named_with_its_arguments_and_status() {
        let error = run(cargo(&["no-such-subcommand"]).stderr(Stdio::null())).unwrap_err();
        assert!(error.contains("cargo no-such-subcommand"), "{error}");
        assert!(error.contains("101"), "{error}");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended_and_named() {
        let error = run_within(program("sleep").arg("1000"), Duration::from_millis(100)).unwrap_err();
        assert!(error.contains("`sleep 1000` took longer than 0 s and was ended"), "{error}");
        assert_eq!(run_within(program("sleep").arg("0"), Duration::from_secs(600)), Ok(()));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut program("no-such-program-anywhere")).unwrap_err();
        assert!(error.contains("`no-such-program-anywhere` could not be started"), "{error}");
    }

    #[test]
    fn what_cargo_says_about_this_package_is_not_passed_on() {
        let command = cargo(&[]);
        let removed = |name: &str| command.get_envs().any(|(key, value)| key == name && value.is_none());
        assert!(removed("CARGO_PKG_NAME"));
        assert!(removed("CARGO_MANIFEST_DIR"));
    }
}
