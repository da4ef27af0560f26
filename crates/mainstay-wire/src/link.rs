//! The way to one peer by one lane: which connection is in use, or when there will be one.

use std::sync::Arc;
use std::time::Duration;

use mainstay_core::time::Instant;
use mainstay_core::{Backoff, Error, ErrorKind, Result, Retries};
use parking_lot::Mutex;

use crate::channel::Channel;
use crate::class::Lane;
use crate::hello::{Refusal, RefusalCode};
use crate::options::Timing;
use crate::party::Peer;
use crate::policy::Introduction;

/// The way to one peer by one lane. At any time one channel is in use at most; others may be coming to an orderly end.
pub(crate) struct Link {
    pub(crate) peer: Peer,
    pub(crate) lane: Lane,
    state: Mutex<LinkState>,
}

struct LinkState {
    phase: Phase,
    redials: Retries,
}

enum Phase {
    Idle,
    /// A dial is under way, and messages gather in the channel.
    Dialing {
        channel: Arc<Channel>,
        /// The peer may have got our hello, and may accept it at this moment.
        is_introduced: bool,
        /// A dial of the peer was refused for the sake of ours.
        has_refused: bool,
    },
    Up {
        channel: Arc<Channel>,
        mark: Mark,
        introduction: Arc<Introduction>,
    },
    Down {
        until: Instant,
        cause: String,
    },
}

/// Which of two hellos of a process was written first: its start, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) boot: u64,
    pub(crate) sequence: u64,
}

/// What to do to send something.
pub(crate) enum Way {
    /// Put it there.
    Use(Arc<Channel>),
    /// Put it there, and dial.
    Dial(Arc<Channel>),
}

/// How a connection has ended.
pub(crate) enum End {
    /// Both ends wanted it to.
    Orderly,
    /// With a failure.
    Failed(String),
}

impl Link {
    pub(crate) fn new(peer: Peer, lane: Lane, timing: &Timing) -> Arc<Self> {
        let redials = Backoff::new(timing.redial_min, timing.redial_max).retries();
        Arc::new(Self { peer, lane, state: Mutex::new(LinkState { phase: Phase::Idle, redials }) })
    }

    /// Where to put a message.
    ///
    /// # Errors
    /// `Retry` while the peer is not reached and it is too early to try again.
    pub(crate) fn way(&self, now: Instant, make: impl FnOnce() -> Arc<Channel>) -> Result<Way> {
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Up { channel, .. } | Phase::Dialing { channel, .. } => return Ok(Way::Use(channel.clone())),
            Phase::Down { until, cause } if now < *until => return Err(unreachable(self.peer, cause)),
            Phase::Idle | Phase::Down { .. } => {}
        }
        if let Peer::Session(_) = self.peer {
            return Err(unreachable(self.peer, "it is not connected"));
        }
        Ok(Way::Dial(state.dial(make())))
    }

    /// Begins a dial for its own sake, if nothing is there or under way.
    pub(crate) fn begin_dial(&self, make: impl FnOnce() -> Arc<Channel>) -> Option<Arc<Channel>> {
        let mut state = self.state.lock();
        match state.phase {
            Phase::Idle | Phase::Down { .. } => Some(state.dial(make())),
            Phase::Dialing { .. } | Phase::Up { .. } => None,
        }
    }

    /// A dial is about to send its hello. False if another connection was made meanwhile.
    pub(crate) fn introduce(&self, dialed: &Arc<Channel>) -> bool {
        match &mut self.state.lock().phase {
            Phase::Dialing { channel, is_introduced, .. } if Arc::ptr_eq(channel, dialed) => {
                *is_introduced = true;
                true
            }
            _ => false,
        }
    }

    /// A dial has failed, or was refused because the peer dials too: it may be tried again after a pause.
    pub(crate) fn retreat(&self, dialed: &Arc<Channel>) -> Option<Duration> {
        let mut state = self.state.lock();
        match &mut state.phase {
            Phase::Dialing { channel, is_introduced, has_refused } if Arc::ptr_eq(channel, dialed) => {
                (*is_introduced, *has_refused) = (false, false);
                Some(state.redials.pause())
            }
            _ => None,
        }
    }

    /// Is this dial still wanted?
    pub(crate) fn is_dialing(&self, dialed: &Arc<Channel>) -> bool {
        matches!(&self.state.lock().phase, Phase::Dialing { channel, .. } if Arc::ptr_eq(channel, dialed))
    }

    /// A dial has succeeded. False if another connection was made meanwhile.
    pub(crate) fn dialed(&self, dialed: &Arc<Channel>, mark: Mark, introduction: &Arc<Introduction>) -> bool {
        let mut state = self.state.lock();
        let is_current = matches!(&state.phase, Phase::Dialing { channel, .. } if Arc::ptr_eq(channel, dialed));
        if is_current {
            state.phase = Phase::Up { channel: dialed.clone(), mark, introduction: introduction.clone() };
        }
        is_current
    }

    /// The peer has dialed. Of two dials at the same time the one of the lower node counts, which both ends find by themselves.
    ///
    /// # Errors
    /// A refusal, if there is a connection already that the peer did not know of when it dialed.
    pub(crate) fn accept(
        &self,
        mark: Mark,
        is_ours_first: bool,
        introduction: &Arc<Introduction>,
        make: impl FnOnce() -> Arc<Channel>,
    ) -> std::result::Result<Arc<Channel>, Refusal> {
        let duplicate = |text: &str| Err(Refusal::new(RefusalCode::Duplicate, text));
        let mut state = self.state.lock();
        let channel = match &mut state.phase {
            // Not twice: a peer that dials again has not got our hello.
            Phase::Dialing { is_introduced: true, has_refused, .. } if is_ours_first && !*has_refused => {
                *has_refused = true;
                return duplicate("a dial the other way counts");
            }
            Phase::Dialing { channel, .. } => channel.clone(),
            Phase::Up { mark: known, .. } if mark <= *known => return duplicate("there is a connection already"),
            Phase::Up { channel, mark: known, .. } => {
                match mark.boot > known.boot {
                    true => channel.close("the peer was started again"),
                    // It has lost the connection, or wants another one: what is under way may end.
                    false => channel.say_goodbye(),
                }
                make()
            }
            Phase::Idle | Phase::Down { .. } => make(),
        };
        state.phase = Phase::Up { channel: channel.clone(), mark, introduction: introduction.clone() };
        Ok(channel)
    }

    /// A connection was made here by address, to whoever is there.
    pub(crate) fn adopt(
        &self,
        mark: Mark,
        introduction: &Arc<Introduction>,
        make: impl FnOnce() -> Arc<Channel>,
    ) -> Arc<Channel> {
        let mut state = self.state.lock();
        let channel = match &state.phase {
            Phase::Dialing { channel, .. } => channel.clone(),
            Phase::Up { channel, .. } => {
                channel.say_goodbye();
                make()
            }
            Phase::Idle | Phase::Down { .. } => make(),
        };
        state.phase = Phase::Up { channel: channel.clone(), mark, introduction: introduction.clone() };
        channel
    }

    /// A connection comes to its end, and the next message takes another.
    pub(crate) fn detach(&self, ending: &Arc<Channel>) {
        let mut state = self.state.lock();
        if state.is_current(ending) {
            state.phase = Phase::Idle;
        }
    }

    /// A connection or a dial has ended. `None` if another one is in use already, else the pause before the next dial.
    pub(crate) fn ended(&self, ended: &Arc<Channel>, end: &End, has_lasted: bool, now: Instant) -> Option<Duration> {
        let mut state = self.state.lock();
        if !state.is_current(ended) {
            return None;
        }
        if has_lasted {
            state.redials.reset();
        }
        match end {
            End::Orderly => {
                state.phase = Phase::Idle;
                Some(Duration::ZERO)
            }
            End::Failed(cause) => {
                let pause = state.redials.pause();
                state.phase = Phase::Down { until: now + pause, cause: cause.clone() };
                Some(pause)
            }
        }
    }

    /// The connection that is in use, with who is at its other end.
    pub(crate) fn current(&self) -> Option<(Arc<Channel>, Arc<Introduction>)> {
        match &self.state.lock().phase {
            Phase::Up { channel, introduction, .. } => Some((channel.clone(), introduction.clone())),
            _ => None,
        }
    }

    /// Ends whatever there is.
    pub(crate) fn close(&self, cause: &str) {
        let channel = match &self.state.lock().phase {
            Phase::Up { channel, .. } | Phase::Dialing { channel, .. } => Some(channel.clone()),
            _ => None,
        };
        if let Some(channel) = channel {
            channel.close(cause);
        }
    }
}

impl LinkState {
    fn dial(&mut self, channel: Arc<Channel>) -> Arc<Channel> {
        self.phase = Phase::Dialing { channel: channel.clone(), is_introduced: false, has_refused: false };
        channel
    }

    fn is_current(&self, other: &Arc<Channel>) -> bool {
        match &self.phase {
            Phase::Up { channel, .. } | Phase::Dialing { channel, .. } => Arc::ptr_eq(channel, other),
            Phase::Idle | Phase::Down { .. } => false,
        }
    }
}

fn unreachable(peer: Peer, cause: &str) -> Error {
    Error::new(ErrorKind::Retry, format!("{peer} is not reached, and the request was not sent"))
        .with_source(cause.to_owned())
}
