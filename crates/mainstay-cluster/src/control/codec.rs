use mainstay_core::format::Format;
use mainstay_core::{Error, Result, contract};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A version byte, and the value as a data contract.
pub(crate) fn encode(format: &Format, value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = vec![format.written()];
    contract::encode_into(&mut bytes, value)?;
    Ok(bytes)
}

/// The same in the place of an old value, whose fields that this program does not know stay.
pub(super) fn encode_over<T: Serialize + DeserializeOwned>(
    format: &Format,
    old: Option<&[u8]>,
    value: &T,
) -> Result<Vec<u8>> {
    match old.and_then(<[u8]>::split_first) {
        Some((version, old)) if format.reads(*version) => {
            let mut bytes = vec![format.written()];
            bytes.append(&mut contract::rewrite(old, value)?);
            Ok(bytes)
        }
        _ => encode(format, value),
    }
}

/// The value in bytes; `what` names it in errors.
///
/// # Errors
/// `Corrupt` or `UnknownVersion`, naming it.
pub(crate) fn decode<T: DeserializeOwned>(format: &Format, bytes: &[u8], what: impl FnOnce() -> String) -> Result<T> {
    let Some((version, value)) = bytes.split_first() else {
        return Err(Error::corrupt(format!("{} is empty", what())));
    };
    if !format.reads(*version) {
        return Err(format.unknown(u64::from(*version), what()));
    }
    contract::decode(value).map_err(|error| Error::corrupt(format!("{} is damaged", what())).with_source(error))
}
