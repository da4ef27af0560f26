use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;

use crate::derive::{Field, read};

/// A field of a worker: its context, or whatever starts as its default.
pub(super) struct WorkerField<'i> {
    field: Field<'i>,
}

impl<'i> WorkerField<'i> {
    pub(super) fn read(field: Field<'i>) -> syn::Result<Self> {
        read(field.attributes, "worker", |meta| {
            Err(meta.error(
                "a field of a worker has no settings: a `WorkerContext` is given, and every other field starts as its default",
            ))
        })?;
        Ok(Self { field })
    }

    pub(super) fn expand(&self) -> TokenStream {
        let (name, ty) = (&self.field.name, self.field.ty);
        let value = match self.field.type_name().as_deref() {
            Some("WorkerContext") => quote_spanned! { ty.span() => opening.context() },
            _ => quote_spanned! { ty.span() => opening.plain::<#ty>() },
        };
        quote!(#name: #value)
    }
}
