//! Fields that a type does not know: found when a value is read, put back when it is written.
//!
//! In reading order: [`collect`] turns the decoder's notes into a tree, with the help of [`hidden`] where serde
//! buffered a value; [`merge`] lays the tree over newly encoded bytes, with the help of [`list`] to tell which element
//! of a list is which. [`canonical`] is how two encoded values are compared.

use std::collections::{BTreeMap, BTreeSet};

mod canonical;
mod collect;
mod hidden;
mod list;
mod merge;

pub(super) use collect::collect;
pub(super) use merge::merge;

/// What a decoded value's type did not know about it.
///
/// Comes from [`decode_keeping`](super::decode_keeping) and goes to [`encode_keeping`](super::encode_keeping). In the
/// usual case, where the type knows every field, it is empty and takes no memory beyond a pointer.
///
/// ```
/// use mainstay_core::contract;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize)]
/// struct Today { name: &'static str, colour: &'static str }
/// #[derive(Serialize, Deserialize)]
/// struct Yesterday { name: String }
///
/// let stored = contract::encode(&Today { name: "chair", colour: "red" })?;
/// let (mut value, unknown) = contract::decode_keeping::<Yesterday>(&stored)?;
/// assert!(!unknown.is_empty());
/// value.name.push('s');
/// let (stored, _) = contract::encode_keeping(&value, &unknown)?;
/// assert_eq!(stored, contract::encode(&Today { name: "chairs", colour: "red" })?);
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Unknown(Option<Box<Node>>);

impl Unknown {
    /// True if the type knew every field of the value.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// An encoded value in the one form that equal values share.
type Canonical = Vec<u8>;

/// A value that has something unknown inside.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Map(Map),
    List(List),
}

/// A map or a struct with unknown fields, or with something unknown inside its values.
#[derive(Debug, Clone, Default, PartialEq)]
struct Map {
    /// The entry that decides the variant of an enum. Under another variant, nothing here applies.
    tag: Option<(Canonical, Canonical)>,
    /// The known keys, where the map is an enum that has no tag at all.
    shape: Option<BTreeSet<Canonical>>,
    kept: Vec<Kept>,
    inside: BTreeMap<Canonical, Node>,
}

/// An unknown field, byte for byte.
#[derive(Debug, Clone, PartialEq)]
struct Kept {
    name: Canonical,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A list with something unknown inside its elements.
#[derive(Debug, Clone, PartialEq)]
struct List {
    /// True if the places have a meaning of their own, as in a tuple struct.
    positional: bool,
    /// What the type knows of each element.
    known: Vec<Canonical>,
    inside: BTreeMap<usize, Node>,
}
