//! What tells a process to end.

use std::fmt;
#[cfg(unix)]
use std::future::poll_fn;
#[cfg(unix)]
use std::task::Poll;

use mainstay_core::{Error, Result};

/// Waits for what tells the process to end. As long as it is there, none of that ends the process by itself.
#[cfg(unix)]
pub(crate) struct Signals {
    listening: Vec<(Signal, tokio::signal::unix::Signal)>,
}

/// What the process was told to end by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal {
    name: &'static str,
    /// What a shell says of a process that ended by it.
    exit_code: i32,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Signal {
    /// Ends the process as the signal would have.
    pub(crate) fn end_process(self) -> ! {
        std::process::exit(self.exit_code)
    }
}

#[cfg(unix)]
impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // Tokio panics where its runtime has no driver for it, and says so by nothing else.
        let listen = |kind| std::panic::catch_unwind(|| signal(kind)).map_err(|_| no_driver())?.map_err(refused);
        let listening = [("SIGINT", SignalKind::interrupt()), ("SIGTERM", SignalKind::terminate())];
        let listening =
            listening.map(|(name, kind)| Ok((Signal { name, exit_code: 128 + kind.as_raw_value() }, listen(kind)?)));
        Ok(Self { listening: listening.into_iter().collect::<Result<_>>()? })
    }

    /// The next one that comes.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            let came = self.listening.iter_mut().find_map(|(signal, listening)| match listening.poll_recv(cx) {
                Poll::Ready(Some(())) => Some(*signal),
                _ => None,
            });
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Waits for what tells the process to end. As long as it is there, none of that ends the process by itself.
#[cfg(windows)]
pub(crate) struct Signals {
    ctrl_c: tokio::signal::windows::CtrlC,
    ctrl_break: tokio::signal::windows::CtrlBreak,
    ctrl_close: tokio::signal::windows::CtrlClose,
    ctrl_shutdown: tokio::signal::windows::CtrlShutdown,
}

#[cfg(windows)]
impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
        Ok(Self {
            ctrl_c: ctrl_c().map_err(refused)?,
            ctrl_break: ctrl_break().map_err(refused)?,
            ctrl_close: ctrl_close().map_err(refused)?,
            ctrl_shutdown: ctrl_shutdown().map_err(refused)?,
        })
    }

    /// The next one that comes.
    pub(crate) async fn next(&mut self) -> Signal {
        /// What the system says of a process that ended by Ctrl-C (`STATUS_CONTROL_C_EXIT`).
        const CONTROL_C_EXIT: i32 = 0xC000_013A_u32.cast_signed();
        let name = tokio::select! {
            _ = self.ctrl_c.recv() => "Ctrl-C",
            _ = self.ctrl_break.recv() => "Ctrl-Break",
            _ = self.ctrl_close.recv() => "the closing of the console",
            _ = self.ctrl_shutdown.recv() => "the shutdown of the system",
        };
        Signal { name, exit_code: CONTROL_C_EXIT }
    }
}

fn refused(error: std::io::Error) -> Error {
    Error::fatal("the signals that end this process cannot be listened to").with_source(error)
}

#[cfg(unix)]
fn no_driver() -> Error {
    Error::invalid(
        "the signals that end this process cannot be listened to, because its tokio runtime has no driver for them: build the \
         runtime with `enable_all`, as `#[tokio::main]` does",
    )
}
