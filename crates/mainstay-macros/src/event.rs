//! `#[derive(Event)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::derive::{checked_name, once, read, text};

pub(crate) fn expand(item: &DeriveInput) -> syn::Result<TokenStream> {
    if !item.generics.params.is_empty() || item.generics.where_clause.is_some() {
        return Err(syn::Error::new_spanned(
            &item.generics,
            "an event cannot be generic, because its name stands for one type: name the types, or write one event for each",
        ));
    }
    let mut name = None;
    read(&item.attrs, "event", |meta| match meta.path.is_ident("name") {
        true => once(&mut name, &meta, checked_name),
        false => Err(meta.error("an event does not know this: use `name = \"..\"`")),
    })?;
    let (event, text) = (&item.ident, text(name, &item.ident));
    Ok(quote! {
        #[automatically_derived]
        impl ::mainstay::__private::Event for #event {
            const NAME: &'static str = #text;
        }
    })
}
