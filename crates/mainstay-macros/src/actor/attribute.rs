use proc_macro2::{Ident, Span};
use syn::{Attribute, LitInt, Path};

use crate::derive::{checked_name, implements, level, number, once, read};

/// How many partitions an actor type has unless told otherwise.
const PARTITIONS_DEFAULT: u32 = 10;

const PARTITIONS_FORM: &str = "give the number of partitions, for example `partitions = 10`: actors are spread evenly over them \
                               by their ids";

/// What `#[actor(..)]` on a struct says.
pub(super) struct ActorAttribute {
    pub(super) implements: Vec<Path>,
    pub(super) partitions: LitInt,
    /// The variant of the level.
    pub(super) level: Ident,
    pub(super) name: Option<String>,
}

impl ActorAttribute {
    pub(super) fn read(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut interfaces = Vec::new();
        let (mut partitions, mut persistence, mut name) = (None, None, None);
        read(attributes, "actor", |meta| {
            let is = |word| meta.path.is_ident(word);
            if is("implements") {
                interfaces.extend(implements(&meta)?);
                Ok(())
            } else if is("partitions") {
                once(&mut partitions, &meta, |meta| number(meta, 1, u32::MAX.into(), PARTITIONS_FORM))
            } else if is("persistence") {
                once(&mut persistence, &meta, level)
            } else if is("name") {
                once(&mut name, &meta, checked_name)
            } else {
                Err(meta.error(
                    "an actor does not know this: use `implements(..)`, `partitions = 10`, `persistence = \"..\"` or \
                     `name = \"..\"`",
                ))
            }
        })?;
        Ok(Self {
            implements: interfaces,
            partitions: partitions.unwrap_or_else(|| LitInt::new(&PARTITIONS_DEFAULT.to_string(), Span::call_site())),
            level: persistence.unwrap_or_else(|| Ident::new("Persisted", Span::call_site())),
            name,
        })
    }
}
