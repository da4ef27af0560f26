//! Whether somebody has asked for an end.

use std::sync::Arc;

use tokio::sync::watch;

/// An end that was asked for, or not yet.
#[derive(Debug, Clone)]
pub struct Stop {
    is_asked: Arc<watch::Sender<bool>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { is_asked: Arc::new(watch::Sender::new(false)) }
    }
}

impl Stop {
    /// Asks for an end: nothing more is begun, and what is under way ends.
    pub fn ask(&self) {
        self.is_asked.send_replace(true);
    }

    /// True if an end was asked for.
    pub fn is_asked(&self) -> bool {
        *self.is_asked.borrow()
    }

    /// Returns when an end is asked for.
    pub async fn asked(&self) {
        // The other side is in this value, and so is not gone.
        let _ = self.is_asked.subscribe().wait_for(|is_asked| *is_asked).await;
    }
}

/// Ctrl-C, and what the system sends to have a program end. What comes between two looks is not lost.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    streams: Option<[tokio::signal::unix::Signal; 2]>,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let streams = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
            let [Ok(interrupt), Ok(terminate)] = streams else { return Self { streams: None } };
            Self { streams: Some([interrupt, terminate]) }
        }
        #[cfg(not(unix))]
        Self {}
    }

    /// Returns at the next one. Where there are no signals, there is only the count of events.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        if let Some([interrupt, terminate]) = &mut self.streams {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_ok() {
            return;
        }
        std::future::pending::<()>().await;
    }
}
