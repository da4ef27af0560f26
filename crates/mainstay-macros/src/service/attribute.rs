use proc_macro2::{Ident, Span};
use syn::{Attribute, Path};

use super::partitions::Partitions;
use crate::derive::{checked_name, implements, level, once, read};

/// What `#[service(..)]` on a struct says.
pub(super) struct ServiceAttribute {
    pub(super) implements: Vec<Path>,
    pub(super) partitions: Partitions,
    /// The variant of the level.
    pub(super) level: Ident,
    pub(super) name: Option<String>,
    /// Where `run` is written.
    pub(super) run: Option<Span>,
}

impl ServiceAttribute {
    pub(super) fn read(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut interfaces = Vec::new();
        let (mut partitions, mut persistence, mut name, mut run) = (None, None, None, None);
        read(attributes, "service", |meta| {
            let is = |word| meta.path.is_ident(word);
            if is("implements") {
                interfaces.extend(implements(&meta)?);
                Ok(())
            } else if is("partitions") {
                once(&mut partitions, &meta, |meta| meta.value()?.parse())
            } else if is("persistence") {
                once(&mut persistence, &meta, level)
            } else if is("name") {
                once(&mut name, &meta, checked_name)
            } else if is("run") {
                once(&mut run, &meta, |meta| Ok(meta.path.get_ident().map_or_else(Span::call_site, Ident::span)))
            } else {
                Err(meta.error(
                    "a service does not know this: use `implements(..)`, `partitions = ..`, `persistence = \"..\"`, \
                     `name = \"..\"` or `run`",
                ))
            }
        })?;
        Ok(Self {
            implements: interfaces,
            partitions: partitions.unwrap_or_default(),
            level: persistence.unwrap_or_else(|| Ident::new("Persisted", Span::call_site())),
            name,
            run,
        })
    }
}
