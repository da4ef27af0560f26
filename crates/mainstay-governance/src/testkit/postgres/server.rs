use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use mainstay::{Error, ErrorKind, Result};
use tempfile::TempDir;

use super::account::Account;
use super::binaries::Binaries;
use super::options::{PostgresOptions, RESERVED_CONNECTIONS};
use super::process::{Process, Stop};

/// How long a server may take until it lets sessions in, recovery after a crash included.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How often it is looked at meanwhile.
const READY_POLL: Duration = Duration::from_millis(10);

/// How much of the end of the log an error shows.
const LOG_TAIL_BYTES: usize = 2_000;

/// The line of `postmaster.pid` that says whether sessions are let in.
const STATUS_LINE: usize = 7;

/// A PostgreSQL server of one's own: a new cluster in a temporary folder, reached by a Unix socket alone, gone when dropped.
///
/// It is found where packages put it, and runs under another account if we are the administrator of the machine. If this
/// process dies without dropping it, server and folders go as well. Its functions block: call them where a thread may wait.
///
/// ```no_run
/// use mainstay::governance::testkit::{PostgresOptions, PostgresServer, Stop};
///
/// let mut server = PostgresServer::start(PostgresOptions::default().with_max_connections(12))?;
/// println!("connect to {}", server.connection_string());
/// server.restart(Stop::Fast)?;
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Debug)]
pub struct PostgresServer {
    account: Account,
    binaries: Binaries,
    options: PostgresOptions,
    process: Option<Process>,
    // Dropped after the process has been stopped.
    data: TempDir,
    socket: TempDir,
}

impl PostgresServer {
    /// Makes a cluster and starts its server.
    ///
    /// # Errors
    /// `NotFound` if no PostgreSQL is installed, `Invalid` for options that make no sense, `Fatal` with the end of the
    /// server's log if it does not start.
    pub fn start(options: PostgresOptions) -> Result<Self> {
        options.check()?;
        let binaries = Binaries::find()?;
        // Apart from the data, because the path of a socket must be short.
        let socket = folder(&std::env::temp_dir())?;
        let data = folder(options.below.as_deref().unwrap_or(&std::env::temp_dir()))?;
        let account = Account::for_owner_of(data.path())?;
        account.give(data.path())?;
        account.give(socket.path())?;
        let mut server = Self { account, binaries, options, process: None, data, socket };
        server.make_cluster()?;
        server.resume()?;
        Ok(server)
    }

    /// How to connect as the administrator of the cluster, who needs no password.
    pub fn connection_string(&self) -> String {
        self.connection_string_of("postgres")
    }

    /// How to connect under another name. Nobody needs a password.
    pub fn connection_string_of(&self, user: &str) -> String {
        format!("host={} user={user} dbname=postgres", self.socket.path().display())
    }

    /// How many sessions of ordinary users it lets in.
    pub fn connections_for_users(&self) -> u32 {
        self.options.max_connections - RESERVED_CONNECTIONS
    }

    /// Stops the server; the data stays. Does nothing if it is stopped.
    pub fn stop(&mut self, how: Stop) {
        if let Some(mut process) = self.process.take() {
            process.stop(how);
        }
    }

    /// Starts the server again and waits until it lets sessions in. Does nothing if it runs.
    ///
    /// # Errors
    /// `Fatal` with the end of its log if it does not start.
    pub fn resume(&mut self) -> Result<()> {
        if self.process.as_mut().is_some_and(|process| process.ended().is_none()) {
            return Ok(());
        }
        self.process = None;
        let deadline = Instant::now() + READY_TIMEOUT;
        while Instant::now() < deadline {
            let mut process = self.spawn()?;
            if self.wait_until_ready(&mut process, deadline) {
                self.process = Some(process);
                return Ok(());
            }
            drop(process);
            // After a kill, sessions of the old server may hold its memory for another moment.
            if !self.log_tail().contains("shared memory block") {
                break;
            }
            std::thread::sleep(READY_POLL);
        }
        Err(Error::fatal(format!("the private PostgreSQL did not start; its log ends with:\n{}", self.log_tail())))
    }

    /// Stops the server and starts it again.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    pub fn restart(&mut self, how: Stop) -> Result<()> {
        self.stop(how);
        self.resume()
    }

    /// What it has logged since it was made, over all restarts.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.log_file()).unwrap_or_default()).into_owned()
    }

    fn make_cluster(&self) -> Result<()> {
        let mut command = self.binaries.command("initdb");
        // What is synced here is lost with the folder anyway.
        command.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]);
        command.arg("--pgdata").arg(self.cluster()).current_dir("/");
        let output = self.account.run(&mut command).output();
        let failed = |text: String| {
            let below = self.data.path().display();
            Error::fatal(format!(
                "initdb failed below {below}, which the account of the server must be able to enter: {text}"
            ))
        };
        match output {
            Ok(Output { status, .. }) if status.success() => Ok(()),
            Ok(Output { stderr, .. }) => Err(failed(String::from_utf8_lossy(&stderr).trim().to_owned())),
            Err(cause) => Err(failed("it did not run".to_owned()).with_source(cause)),
        }
    }

    fn spawn(&self) -> Result<Process> {
        let mut command = Command::new(self.binaries.path("postgres"));
        let mut set = |name: &str, value: &str| {
            command.arg("-c").arg(format!("{name}={value}"));
        };
        set("listen_addresses", "");
        set("unix_socket_directories", &self.socket.path().to_string_lossy());
        set("max_connections", &self.options.max_connections.to_string());
        set("superuser_reserved_connections", &RESERVED_CONNECTIONS.to_string());
        for (name, value) in &self.options.settings {
            set(name, value);
        }
        command.arg("-D").arg(self.cluster());
        Process::start(self.account, &[self.data.path(), self.socket.path()], &command, &self.log_file())
    }

    /// False if it has ended, or has not got ready until the deadline.
    fn wait_until_ready(&self, process: &mut Process, deadline: Instant) -> bool {
        loop {
            let status = std::fs::read_to_string(self.cluster().join("postmaster.pid")).unwrap_or_default();
            let mut lines = status.lines();
            // A server before may have left the file.
            if lines.next() == Some(process.id().to_string().as_str())
                && lines.nth(STATUS_LINE - 1).is_some_and(|status| status.trim() == "ready")
            {
                return true;
            }
            if process.ended().is_some() || Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(READY_POLL);
        }
    }

    fn cluster(&self) -> PathBuf {
        self.data.path().join("cluster")
    }

    fn log_file(&self) -> PathBuf {
        self.data.path().join("log")
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop(Stop::Immediate);
    }
}

fn folder(below: &Path) -> Result<TempDir> {
    tempfile::Builder::new().prefix("mainstay-postgres-").tempdir_in(below).map_err(|cause| {
        let message = format!("no folder for a private PostgreSQL can be made in {}", below.display());
        Error::new(ErrorKind::Fatal, message).with_source(cause)
    })
}
