use bytes::Bytes;
use mainstay_core::time::WallTime;
use mainstay_core::{Error, ErrorKind, Result};

use crate::options::VALUE_BYTES_MAX;

/// The last answer in a lane: what the last call was answered that came in one lane of a caller's session. A call that is sent
/// again has the number of the first, and gets the same answer; the next call in the lane takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneAnswer {
    /// The number of the call, which grows in a lane.
    pub number: u64,
    /// What was replied, encoded.
    pub reply: Bytes,
    /// Until when it is kept.
    pub expires: WallTime,
}

impl LaneAnswer {
    /// Refuses what is too large to be stored.
    ///
    /// # Errors
    /// `TooLarge` for a reply above [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX).
    pub fn check(&self) -> Result<()> {
        if self.reply.len() <= VALUE_BYTES_MAX {
            return Ok(());
        }
        let bytes = self.reply.len();
        Err(Error::new(
            ErrorKind::TooLarge,
            format!("the reply of a call has {bytes} bytes, and VALUE_BYTES_MAX is {VALUE_BYTES_MAX}: answer less"),
        ))
    }
}
