use proc_macro2::TokenStream;
use syn::parse::Parser as _;
use syn::{LitStr, meta};

use super::wire_name;

/// What `#[interface(..)]` says.
#[derive(Default)]
pub(super) struct Arguments {
    /// The call that adds what implements the interface to a node.
    pub(super) served_by: Option<LitStr>,
    /// The name by which other processes know the interface.
    pub(super) name: Option<LitStr>,
}

impl Arguments {
    pub(super) fn read(tokens: TokenStream) -> syn::Result<Self> {
        let mut arguments = Self::default();
        let parser = meta::parser(|meta| {
            let (place, word) = match &meta.path {
                path if path.is_ident("served_by") => (&mut arguments.served_by, "served_by"),
                path if path.is_ident("name") => (&mut arguments.name, "name"),
                _ => {
                    return Err(meta.error(
                        "an interface does not know this: use `name = \"..\"` for the name that other processes know it by, \
                         `served_by = \"..\"` for the call that adds a library's actors to a node, or remove it",
                    ));
                }
            };
            if place.is_some() {
                return Err(meta.error(format!("`{word}` is given twice: leave one out")));
            }
            let text: LitStr = meta.value()?.parse()?;
            if word == "name" {
                wire_name::check(&text)?;
            }
            *place = Some(text);
            Ok(())
        });
        parser.parse2(tokens)?;
        Ok(arguments)
    }
}
