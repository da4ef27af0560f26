//! Fields that a type does not know: found when a value is read, put back when it is written.
//!
//! In reading order: [`collect`] turns the decoder's notes into a tree, whose places are those of the value as its type
//! writes it: [`pairs`] finds them. Where serde buffered a value, [`hidden`] finds what is unknown first. What nothing
//! else tells is found out by [`trials`], which make an [`edit`] and see what the type does with it. [`merge`] lays the
//! tree over newly encoded bytes, with the help of [`list`] to tell which element of a list is which, and of [`shape`]
//! to tell whether an enum still has its variant. Values are compared by their [`print`], names by their [`canonical`]
//! form.

use std::collections::BTreeMap;

use print::Print;
use shape::Shape;

mod collect;
mod hidden;
mod pairs;

mod edit;
mod trials;

mod list;
mod merge;
mod shape;

mod canonical;
mod print;

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
    /// What tells whether the map is still the same variant of an enum, where no tag was seen. Under another one, the
    /// kept fields do not apply.
    shape: Option<Shape>,
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
    order: Order,
    /// What the type knows of each element.
    known: Vec<Print>,
    inside: BTreeMap<usize, Node>,
}

/// What the places of a list say about its elements.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    /// All: a place has a meaning of its own, as in a tuple struct.
    Places,
    /// Something: an element stays where it is unless somebody moves it.
    Sequence,
    /// Nothing: it is a set.
    Set,
}
