//! Sessions: by what a callee recognizes a call that is sent twice.
//!
//! The calls of a process to one actor go through *lanes*: a lane has one call at a time, and each has a greater number than the one
//! before. The actor keeps the last answer of each lane. A call with the number of that answer is answered with it; one with a
//! greater number says by itself that the answer before has arrived, and its answer takes the place; one with a smaller number
//! has come too late, and is refused. So no answer has to be acknowledged or removed, and a caller that makes one call after
//! another leaves one small record behind, which expires.

use std::fmt;

use mainstay_core::time::WallTime;

/// The key that a proxy makes for a call, so that the call can be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionKey {
    /// The session: drawn at random by a process when it starts.
    pub(crate) session: u64,
    /// One of the lanes of the session to the actor.
    pub(crate) lane: u16,
    /// The number of the call, which grows in each lane.
    pub(crate) number: u64,
    /// By the clock of the caller, when the caller has given up: what arrives later is not carried out.
    pub(crate) expires: WallTime,
    /// Whether the call was sent before and the outcome is not known.
    pub(crate) is_repeated: bool,
}

impl SessionKey {
    /// The name under which an actor keeps the last answer of the lane.
    pub(crate) fn lane_name(&self) -> String {
        format!("{:016x}{:04x}", self.session, self.lane)
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} in lane {} of session {:016x}", self.number, self.lane, self.session)
    }
}
