//! Errors on the wire.

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, contract};

/// The longest error that travels as it is: it fits into a frame of every connection.
const BYTES_MAX: usize = 3 << 10;

/// How much is left of the text of one that is longer.
const TEXT_BYTES_MAX: usize = 2 << 10;

/// The bytes of an error: its kind by name, its text and its causes, as [`mainstay_core::Error`] is stored.
pub(crate) fn encode(error: &Error) -> Bytes {
    if let Ok(bytes) = contract::encode(error)
        && bytes.len() <= BYTES_MAX
    {
        return bytes.into();
    }
    let text = error.to_string();
    let short = Error::new(error.kind(), &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]);
    contract::encode(&short).unwrap_or_default().into()
}

/// The error that has come. One that cannot be read promises nothing.
pub(crate) fn decode(bytes: &[u8]) -> Error {
    contract::decode(bytes).unwrap_or_else(|cause| {
        Error::new(ErrorKind::OutcomeUnknown, "the request has failed with an error that cannot be read")
            .with_source(cause)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_arrive_with_their_kind_and_long_ones_are_cut() {
        let error = decode(&encode(&Error::new(ErrorKind::Overloaded, "full").with_source("cause")));
        assert_eq!(format!("{error:?}"), "Overloaded: full: cause");
        let long = encode(&Error::new(ErrorKind::Conflict, "ä".repeat(10_000)));
        assert!(long.len() <= BYTES_MAX);
        assert_eq!(decode(&long).kind(), ErrorKind::Conflict);
        assert_eq!(decode(b"\xc1garbage").kind(), ErrorKind::OutcomeUnknown);
    }
}
