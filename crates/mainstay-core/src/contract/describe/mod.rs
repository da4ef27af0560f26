//! The names of types, as a collection's durable record of its types holds them.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

mod probe;

mod access;
mod place;

mod choices;
mod spelling;

use choices::Choices;
use probe::{Probe, Verdict};

#[cfg(test)]
mod tests;

/// The most bytes of a type's name: it stands in durable records and in messages.
pub const TYPE_NAME_BYTES_MAX: usize = 1024;

/// The most options, lists, maps and tuples inside each other in a type's name. More than a person writes; a type that
/// contains itself without a name in between has no end.
pub const TYPE_NAME_DEPTH_MAX: u16 = 16;

/// The levels inside a named type down to which samples of it are made, the least first: a type that contains itself is
/// to be sampled by its smallest values.
const SAMPLE_DEPTHS: [u16; 3] = [3, 8, 32];

/// The most questions that a type may ask while samples of one depth are tried on it.
const QUESTIONS_MAX: u32 = 20_000;

/// The name of a data contract: `i64`, `User`, `list of (string, option of User)`.
///
/// It is what serde sees of a type: the container name that the author can set with `#[serde(rename = "User")]`, no
/// module path, no type parameters and no fields. So it is the same for all versions of a type, in every build and on
/// every platform, and two types with the same name are the same contract as far as this tells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TypeName(String);

impl TypeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of the data contract of `T`, found by asking its `Deserialize` what it wants to read.
///
/// | `T` | name |
/// |---|---|
/// | `bool`, integers, floats, `char` | their names in Rust; `usize` is `u64` and `isize` is `i64` |
/// | `String`, anything read from a string | `string` |
/// | `Bytes`, `Uuid` | `bytes` |
/// | `()` | `unit` |
/// | structs of all kinds, enums | their serde name |
/// | `Option`, lists and sets, maps | `option of T`, `list of T`, `map of K to V` |
/// | tuples, arrays of up to 16 elements | `(A, B)` |
/// | longer arrays | `array of 32 u8` |
/// | structs with flattened fields, whose name serde does not tell | `struct` |
/// | `#[serde(untagged)]`, `#[serde(tag = "…")]` without content, whatever takes what it finds | `any` |
///
/// `Box` and the like, `#[serde(transparent)]` and `#[serde(from = "…")]` are what is inside. `Page<A>` and
/// `Page<B>` are both `Page`: give them names of their own with a newtype struct, which changes no bytes. The same helps
/// a type that became `struct` or `any` and is to keep its name.
///
/// To see what stands behind the first place of a tuple, that place needs a value. Types there are given plain samples, so
/// code of theirs that checks or converts what it reads runs on them, as it would on any data.
///
/// ```
/// use mainstay_core::contract;
///
/// #[derive(serde::Deserialize)]
/// struct User { name: String }
///
/// assert_eq!(contract::describe::<(String, Option<User>)>()?.as_str(), "(string, option of User)");
/// # Ok::<(), mainstay_core::Error>(())
/// ```
///
/// # Errors
/// `Invalid` if a place of a tuple cannot be seen because a type before it refuses every sample, or if the type asks for
/// nothing; `TooLarge` above [`TYPE_NAME_BYTES_MAX`] or [`TYPE_NAME_DEPTH_MAX`]. The remedy for all of them is in the
/// message: a struct with a name.
pub fn describe<T: DeserializeOwned>() -> Result<TypeName> {
    for sample_depth in SAMPLE_DEPTHS {
        let mut choices = Choices::default();
        let mut questions_left = QUESTIONS_MAX;
        loop {
            let mut probe = Probe::new(&mut choices, &mut questions_left, sample_depth);
            // Whether a value came of it does not matter: what was asked for is in the probe.
            let _ = T::deserialize(probe.root());
            match probe.verdict() {
                Verdict::Named(name) => return Ok(TypeName(name)),
                Verdict::Unseen => {}
                Verdict::TooLong => {
                    return Err(refused::<T>(
                        ErrorKind::TooLarge,
                        format_args!("its name exceeds TYPE_NAME_BYTES_MAX of {TYPE_NAME_BYTES_MAX}"),
                    ));
                }
                Verdict::TooDeep => {
                    return Err(refused::<T>(
                        ErrorKind::TooLarge,
                        format_args!("it is nested deeper than TYPE_NAME_DEPTH_MAX of {TYPE_NAME_DEPTH_MAX}"),
                    ));
                }
                Verdict::Silent => {
                    return Err(refused::<T>(ErrorKind::Invalid, format_args!("it, or a part of it, reads nothing")));
                }
            }
            if questions_left == 0 || !choices.advance() {
                break;
            }
        }
    }
    Err(refused::<T>(
        ErrorKind::Invalid,
        format_args!("a type in a place of a tuple accepts no sample value, which hides the places behind it"),
    ))
}

fn refused<T>(kind: ErrorKind, why: fmt::Arguments<'_>) -> Error {
    let name = std::any::type_name::<T>();
    Error::new(kind, format!("type {name} has no stable name: {why}: wrap it in a struct, whose name is used instead"))
}
