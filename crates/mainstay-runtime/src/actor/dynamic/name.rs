use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::STATE_NAME_BYTES_MAX;

use crate::actor::actor_shared::ActorShared;

/// The most bytes of a name of dynamic state.
pub const DYNAMIC_NAME_BYTES_MAX: usize = STATE_NAME_BYTES_MAX - MARK.len();

/// What dynamic names are stored behind. No field is stored under a name that starts so: it is no part of a Rust
/// identifier, and `#[derive(Actor)]` refuses it in an attribute. So the two never meet, whatever names a program makes up.
pub(super) const MARK: &str = "\0";

/// The name under which a value is stored.
///
/// # Errors
/// `TooLarge` above [`DYNAMIC_NAME_BYTES_MAX`].
pub(super) fn stored_name(shared: &ActorShared, name: &str) -> Result<String> {
    if name.len() > DYNAMIC_NAME_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "a name of dynamic state of {shared} has {} bytes, and DYNAMIC_NAME_BYTES_MAX is {DYNAMIC_NAME_BYTES_MAX}: \
                 use a hash of it",
                name.len()
            ),
        ));
    }
    Ok([MARK, name].concat())
}
