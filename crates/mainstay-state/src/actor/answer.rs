use bytes::Bytes;
use mainstay_core::contract::Fingerprint;
use mainstay_core::time::WallTime;
use mainstay_core::{Error, ErrorKind, Result};

use crate::options::VALUE_BYTES_MAX;

/// The most bytes of the name of the method that an [`Answer`] is of, and of that of its interface.
pub const ANSWER_METHOD_BYTES_MAX: usize = 1024;

/// What a call with an idempotency key was answered, kept for those who make the same call again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The interface that was called; `None` in an answer that was kept before this was recorded.
    pub interface: Option<String>,
    /// The method that was called: the same key with another one is a mistake.
    pub method: String,
    /// What it was called with; `None` in an answer that was kept before this was recorded.
    pub arguments: Option<Fingerprint>,
    /// What was replied, encoded.
    pub reply: Bytes,
    /// Until when it is kept.
    pub expires: WallTime,
}

impl Answer {
    /// Refuses what is too large to be stored.
    ///
    /// # Errors
    /// `TooLarge` for a method above [`ANSWER_METHOD_BYTES_MAX`] or a reply above
    /// [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX).
    pub fn check(&self) -> Result<()> {
        let interface_bytes = self.interface.as_ref().map_or(0, String::len);
        for (what, bytes, limit, bytes_max) in [
            ("the name of its interface", interface_bytes, "ANSWER_METHOD_BYTES_MAX", ANSWER_METHOD_BYTES_MAX),
            ("the name of its method", self.method.len(), "ANSWER_METHOD_BYTES_MAX", ANSWER_METHOD_BYTES_MAX),
            ("its reply", self.reply.len(), "VALUE_BYTES_MAX", VALUE_BYTES_MAX),
        ] {
            if bytes > bytes_max {
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    format!(
                        "the answer of a call cannot be kept: {what} has {bytes} bytes, and {limit} is {bytes_max}"
                    ),
                ));
            }
        }
        Ok(())
    }
}
