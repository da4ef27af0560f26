use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::{Expr, LitStr};

use super::SERVICE;
use crate::derive::{Field, local, opened, place, read};

/// A field of a service, and what it is filled with.
pub(super) struct ServiceField<'i> {
    field: Field<'i>,
    content: Content,
}

/// What a field is filled with.
enum Content {
    /// The collection of this name.
    Collection(String),
    StateManager,
    Context,
    Provided,
    /// By an expression.
    Opened(Box<Expr>),
    Default,
}

impl<'i> ServiceField<'i> {
    pub(super) fn read(field: Field<'i>) -> syn::Result<Self> {
        if let Some(expression) = opened(&field, &SERVICE)? {
            return Ok(Self { field, content: Content::Opened(Box::new(expression)) });
        }
        let mut content = Content::of(&field);
        let mut is_told = false;
        read(field.attributes, "service", |meta| {
            is_told = true;
            if meta.path.is_ident("name") {
                content = Content::Collection(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("collection") {
                content = Content::Collection(field.name.unraw().to_string());
            } else if meta.path.is_ident("default") {
                content = Content::Default;
            } else {
                return Err(meta.error(
                    "a field of a service does not know this: use `name = \"..\"` or `collection` for a collection, or \
                     `default`",
                ));
            }
            Ok(())
        })?;
        if let (false, Some(kept @ ("State" | "Paged"))) = (is_told, field.generic_type_name().as_deref()) {
            return Err(syn::Error::new_spanned(
                field.ty,
                format!(
                    "a `{kept}` is kept by an actor: a service keeps what changes in collections, such as a `Dictionary<..>`; \
                     if this is a type of your own, add `#[service(default)]`"
                ),
            ));
        }
        Ok(Self { field, content })
    }

    /// The name of the collection that it is, if it is one.
    pub(super) fn collection(&self) -> Option<&str> {
        match &self.content {
            Content::Collection(stored) => Some(stored),
            _ => None,
        }
    }

    /// The expression that it is opened by, if it is.
    pub(super) fn opened(&self) -> Option<(&Field<'i>, &Expr)> {
        match &self.content {
            Content::Opened(expression) => Some((&self.field, expression)),
            _ => None,
        }
    }

    pub(super) fn expand(&self) -> TokenStream {
        let (name, ty) = (&self.field.name, self.field.ty);
        let value = match &self.content {
            Content::Collection(stored) => quote_spanned! { place(ty) => opening.collection::<#ty>(#stored).await? },
            Content::StateManager => quote_spanned! { place(ty) => opening.state_manager() },
            Content::Context => quote_spanned! { place(ty) => opening.context() },
            Content::Provided => quote_spanned! { place(ty) => opening.provided()? },
            Content::Opened(_) => {
                let value = local(&self.field);
                quote!(#value)
            }
            Content::Default => quote_spanned! { place(ty) => opening.plain::<#ty>() },
        };
        quote!(#name: #value)
    }
}

impl Content {
    fn of(field: &Field<'_>) -> Self {
        match field.type_name().as_deref() {
            Some("Dictionary" | "Queue" | "ConcurrentQueue") => Self::Collection(field.name.unraw().to_string()),
            Some("StateManager") => Self::StateManager,
            Some("ServiceContext") => Self::Context,
            Some("Provided") => Self::Provided,
            _ => Self::Default,
        }
    }
}
