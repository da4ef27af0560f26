use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Expr;

use super::WORKER;
use crate::derive::{Field, local, opened, place, read};

/// A field of a worker: its context, or whatever starts as its default.
pub(super) struct WorkerField<'i> {
    field: Field<'i>,
    /// The expression that it is opened by, if it is.
    opened: Option<Expr>,
}

impl<'i> WorkerField<'i> {
    pub(super) fn read(field: Field<'i>) -> syn::Result<Self> {
        if let Some(expression) = opened(&field, &WORKER)? {
            return Ok(Self { field, opened: Some(expression) });
        }
        read(field.attributes, "worker", |meta| {
            Err(meta.error(
                "a field of a worker has no settings: a `WorkerContext` is given, and every other field starts as its default",
            ))
        })?;
        if let Some(kept @ ("State" | "Paged" | "Dictionary" | "ConcurrentQueue")) =
            field.generic_type_name().as_deref()
        {
            return Err(syn::Error::new_spanned(
                field.ty,
                format!(
                    "a worker keeps nothing, and so has no `{kept}`: an actor keeps a `State`, and a service keeps collections"
                ),
            ));
        }
        Ok(Self { field, opened: None })
    }

    /// The expression that it is opened by, if it is.
    pub(super) fn opened(&self) -> Option<(&Field<'i>, &Expr)> {
        self.opened.as_ref().map(|expression| (&self.field, expression))
    }

    pub(super) fn expand(&self) -> TokenStream {
        let (name, ty) = (&self.field.name, self.field.ty);
        let value = match self.field.type_name().as_deref() {
            _ if self.opened.is_some() => {
                let value = local(&self.field);
                quote!(#value)
            }
            Some("WorkerContext") => quote_spanned! { place(ty) => opening.context() },
            _ => quote_spanned! { place(ty) => opening.plain::<#ty>() },
        };
        quote!(#name: #value)
    }
}
