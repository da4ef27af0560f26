use proc_macro2::TokenStream;
use syn::parse::Parser as _;
use syn::{LitStr, meta};

/// What `#[interface(..)]` says.
#[derive(Default)]
pub(super) struct Arguments {
    /// The call that adds what implements the interface to a node.
    pub(super) served_by: Option<LitStr>,
}

impl Arguments {
    pub(super) fn read(tokens: TokenStream) -> syn::Result<Self> {
        let mut arguments = Self::default();
        let parser = meta::parser(|meta| {
            match meta.path.is_ident("served_by") {
            true if arguments.served_by.is_some() => Err(meta.error("`served_by` is given twice: leave one out")),
            true => {
                arguments.served_by = Some(meta.value()?.parse()?);
                Ok(())
            }
            false => Err(meta.error(
                "an interface does not know this: use `served_by = \"..\"` for the call that adds a library's actors to a \
                 node, or remove it",
            )),
        }
        });
        parser.parse2(tokens)?;
        Ok(arguments)
    }
}
