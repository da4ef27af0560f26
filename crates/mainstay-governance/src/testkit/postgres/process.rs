//! The server as a process that cannot outlive us.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use mainstay::{Error, Result};

use super::account::Account;

/// Waits in the background for the name of a signal, which it sends to the server, and becomes the server in the foreground.
///
/// If we are gone without having sent one, however that came about, the pipe ends: then nobody needs the server any more,
/// nor its folders, which are the arguments before the `--`. What ends a whole group of processes does not end the guard, who
/// has to clear up then.
const GUARDED: &str = r#"
exec 3<&0 </dev/null
server=$$
(
    trap '' HUP INT TERM
    if read -r signal <&3; then
        kill -s "$signal" "$server"
    else
        kill -s QUIT "$server" 2>/dev/null
        while kill -s 0 "$server" 2>/dev/null; do sleep 0.05; done
        while [ "$1" != -- ]; do rm -rf -- "$1"; shift; done
    fi
) &
while [ "$1" != -- ]; do shift; done
shift
exec "$@" 3<&-
"#;

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// As an administrator restarts it: sessions are ended with 57P01, transactions in progress are rolled back.
    Fast,
    /// Like a crash of the server: sessions are cut, and the next start recovers from its log.
    Immediate,
    /// The postmaster is killed without a chance to do anything.
    Kill,
}

impl Stop {
    fn signal(self) -> &'static str {
        match self {
            Stop::Fast => "INT",
            Stop::Immediate => "QUIT",
            Stop::Kill => "KILL",
        }
    }
}

/// A server that runs.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    guard: Option<ChildStdin>,
}

impl Process {
    /// Starts a command under an account, with what it prints added to a file. The folders go when we die without having
    /// stopped it.
    pub(super) fn start(account: Account, folders: &[&Path], server: &Command, log: &Path) -> Result<Self> {
        let failed = |what: &str, cause: std::io::Error| Error::fatal(what.to_owned()).with_source(cause);
        let output = File::options().create(true).append(true).open(log);
        let output = output.map_err(|cause| failed("the log of the private PostgreSQL cannot be opened", cause))?;
        let errors = output.try_clone().map_err(|cause| failed("a file handle cannot be copied", cause))?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARDED, "sh"]).args(folders).arg("--");
        command.arg(server.get_program()).args(server.get_args());
        command.stdin(Stdio::piped()).stdout(output).stderr(errors).current_dir("/");
        let mut child =
            account.run(&mut command).spawn().map_err(|cause| failed("PostgreSQL cannot be started", cause))?;
        let guard = child.stdin.take();
        Ok(Self { child, guard })
    }

    /// The number of the server's process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Stops it and waits until it is gone.
    pub(super) fn stop(&mut self, how: Stop) {
        let Some(mut guard) = self.guard.take() else { return };
        // A guard that is gone cannot pass the signal on: then only the direct way is left.
        if writeln!(guard, "{}", how.signal()).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A guard that only saw its pipe end would take the folders away.
        self.stop(Stop::Immediate);
    }
}
