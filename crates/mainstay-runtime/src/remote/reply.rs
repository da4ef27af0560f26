use bytes::Bytes;
use mainstay_core::{Epoch, Error, ErrorKind, Result, contract};

use super::fields::FieldReader;
use super::formats::CALL_REPLY;

/// How much is left of the text of an error whose causes make it too long to travel.
const ERROR_TEXT_BYTES_MAX: usize = 8 << 10;

/// The longest error that travels with all its causes.
const ERROR_BYTES_MAX: usize = 64 << 10;

const VALUE: u8 = 0;
const FAILED: u8 = 1;

/// The answer of a call on its way back.
#[derive(Debug, Clone)]
pub struct CallReply {
    /// The epoch of the primary that has answered, where it is known.
    pub(crate) epoch: Option<Epoch>,
    /// The encoded reply of the method, its own errors included; or an error of the runtime.
    pub(crate) outcome: Result<Bytes>,
}

impl CallReply {
    /// The bytes of the answer.
    pub fn encode(&self) -> Bytes {
        let (kind, body) = match &self.outcome {
            Ok(value) => (VALUE, value.clone()),
            Err(error) => (FAILED, encode_error(error)),
        };
        let mut out = Vec::with_capacity(14 + body.len());
        out.extend_from_slice(&[CALL_REPLY.written(), kind]);
        out.extend_from_slice(&self.epoch.unwrap_or_default().0.to_le_bytes());
        out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&body);
        out.into()
    }

    /// The answer of these bytes. What follows it is skipped: it is of a later program.
    ///
    /// # Errors
    /// `Corrupt` if they are none, `UnknownVersion` for those of another program.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut reader = FieldReader::new(CALL_REPLY.name(), bytes);
        CALL_REPLY.check(reader.u8()?)?;
        let kind = reader.u8()?;
        let epoch = Some(Epoch(reader.u64()?)).filter(|epoch| *epoch != Epoch::default());
        let length = reader.u32()? as usize;
        reader.take(length)?;
        let end = reader.at();
        let body = bytes.slice(end - length..end);
        let outcome = match kind {
            VALUE => Ok(body),
            FAILED => Err(contract::decode(&body).unwrap_or_else(|cause| {
                Error::new(ErrorKind::OutcomeUnknown, "the call has failed with an error that cannot be read")
                    .with_source(cause)
            })),
            _ => return Err(reader.bad("is of an unknown kind")),
        };
        Ok(Self { epoch, outcome })
    }
}

fn encode_error(error: &Error) -> Bytes {
    if let Ok(bytes) = contract::encode(error)
        && bytes.len() <= ERROR_BYTES_MAX
    {
        return bytes.into();
    }
    let text = error.to_string();
    let short = Error::new(error.kind(), &text[..text.floor_char_boundary(ERROR_TEXT_BYTES_MAX)]);
    // A kind and a text of a few kilobytes can be encoded; if not, the reader says that it cannot read the error.
    contract::encode(&short).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use mainstay_core::NodeId;
    use mainstay_core::format::golden::{Golden, damaged, longer};
    use proptest::prelude::*;

    use super::*;

    fn samples() -> [(&'static str, CallReply); 2] {
        let value = CallReply { epoch: Some(Epoch(3)), outcome: Ok(Bytes::from_static(b"\x81\xa2Ok\x07")) };
        let elsewhere = Error::new(ErrorKind::NotPrimary { hint: Some(NodeId(2)) }, "elsewhere").with_source("moved");
        [("reply-value", value), ("reply-failed", CallReply { epoch: None, outcome: Err(elsewhere) })]
    }

    fn same(one: &CallReply, other: &CallReply) -> bool {
        let error = |reply: &CallReply| reply.outcome.as_ref().err().map(|error| (error.kind(), format!("{error:?}")));
        one.epoch == other.epoch
            && one.outcome.as_ref().ok() == other.outcome.as_ref().ok()
            && error(one) == error(other)
    }

    #[test]
    fn golden_answers_are_what_is_written_and_read() {
        let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
        for (name, reply) in samples() {
            golden.check(name, &CALL_REPLY, &reply.encode());
            for version in CALL_REPLY.oldest()..=CALL_REPLY.newest() {
                let kept = Bytes::from(golden.read(name, version));
                assert!(same(&CallReply::decode(&kept).unwrap(), &reply));
                assert!(same(&CallReply::decode(&longer(&kept).into()).unwrap(), &reply));
            }
        }
    }

    #[test]
    fn damaged_answers_never_panic_and_none_is_cut_off_unseen() {
        for (_, reply) in samples() {
            let bytes = reply.encode();
            for (what, damaged) in damaged(&bytes) {
                let is_cut = damaged.len() < bytes.len();
                if CallReply::decode(&damaged.into()).is_ok() {
                    assert!(!is_cut, "{what}");
                }
            }
        }
    }

    #[test]
    fn an_error_that_is_too_long_keeps_its_kind() {
        let long = Error::new(ErrorKind::Conflict, "ä".repeat(100_000));
        let bytes = CallReply { epoch: None, outcome: Err(long) }.encode();
        assert!(bytes.len() < ERROR_BYTES_MAX);
        assert_eq!(CallReply::decode(&bytes).unwrap().outcome.unwrap_err().kind(), ErrorKind::Conflict);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = CallReply::decode(&Bytes::from([&[CALL_REPLY.newest()][..], &bytes].concat()));
        }
    }
}
