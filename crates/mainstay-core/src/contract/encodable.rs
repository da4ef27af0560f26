use std::any::Any;

use serde::Serialize;

use super::Limits;
use crate::Result;

/// The widest limits there are: whoever made a value has kept to narrower ones.
const WIDEST: Limits = Limits { bytes_max: Limits::BYTES_CEILING, depth_max: Limits::DEPTH_CEILING };

/// A value that can be encoded where its type is not known. Every serde type is one that can go from task to task.
///
/// ```
/// use std::any::Any;
/// use std::sync::Arc;
///
/// use mainstay_core::contract::{self, Encodable};
///
/// let value: Arc<dyn Encodable> = Arc::new(vec![1_u8, 2]);
/// let mut bytes = Vec::new();
/// value.encode_at_end(&mut bytes)?;
/// assert_eq!(bytes, contract::encode(&[1_u8, 2])?);
/// let value: Arc<dyn Any + Send + Sync> = value;
/// assert!(value.is::<Vec<u8>>());
/// # Ok::<(), mainstay_core::Error>(())
/// ```
pub trait Encodable: Any + Send + Sync {
    /// Encodes it at the end of a buffer, which is left as it was if that fails.
    ///
    /// # Errors
    /// As [`Limits::encode_into`].
    fn encode_at_end(&self, out: &mut Vec<u8>) -> Result<()>;
}

impl<T: Serialize + Send + Sync + 'static> Encodable for T {
    fn encode_at_end(&self, out: &mut Vec<u8>) -> Result<()> {
        WIDEST.encode_into(out, self)
    }
}
