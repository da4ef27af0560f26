use std::collections::BTreeMap;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::meta::ParseNestedMeta;

use crate::derive::{Field, all, checked_name, once, place, read};

/// A field of an actor, and what it is filled with.
pub(super) struct ActorField<'i> {
    field: Field<'i>,
    content: Content,
}

/// What a field is filled with.
#[derive(Clone, PartialEq)]
enum Content {
    /// State, stored under this name.
    State(String),
    Context,
    /// Its default, which is not stored.
    Plain,
}

/// What the attribute of a field says that it is.
#[derive(Clone, Copy, PartialEq)]
enum Said {
    State,
    Plain,
}

impl<'i> ActorField<'i> {
    pub(super) fn read(field: Field<'i>) -> syn::Result<Self> {
        let (mut said, mut stored) = (None, None);
        read(field.attributes, "actor", |meta| {
            if meta.path.is_ident("name") {
                once(&mut stored, &meta, field_name)
            } else if meta.path.is_ident("state") {
                once(&mut said, &meta, |_| Ok(Said::State))
            } else if meta.path.is_ident("default") {
                once(&mut said, &meta, |_| Ok(Said::Plain))
            } else {
                Err(meta.error(
                    "a field of an actor does not know this: use `name = \"..\"` or `state` for state, or `default`",
                ))
            }
        })?;
        let content = Content::of(&field, said, stored)?;
        Ok(Self { field, content })
    }

    /// The field with its first value.
    pub(super) fn expand_open(&self) -> TokenStream {
        let (name, ty) = (&self.field.name, self.field.ty);
        let value = match self.content.key(&self.field) {
            Some(key) => quote_spanned! { place(ty) => <#ty as ::mainstay::__private::Kept>::open(opening, #key)? },
            None => quote_spanned! { place(ty) => opening.plain::<#ty>() },
        };
        quote!(#name: #value)
    }

    /// Hands over what has changed.
    pub(super) fn expand_seal(&self) -> Option<TokenStream> {
        let name = self.kept()?;
        Some(quote! { ::mainstay::__private::Kept::seal(&mut self.#name, seal)?; })
    }

    /// Goes back to what is stored.
    pub(super) fn expand_restore(&self) -> Option<TokenStream> {
        let name = self.kept()?;
        Some(quote! { ::mainstay::__private::Kept::restore(&mut self.#name, opening)?; })
    }

    fn kept(&self) -> Option<&syn::Ident> {
        (self.content != Content::Plain).then_some(&self.field.name)
    }
}

impl Content {
    fn of(field: &Field<'_>, said: Option<Said>, stored: Option<String>) -> syn::Result<Self> {
        let refusal = |message| Err(syn::Error::new(field.name.span(), message));
        let own = || field.name.unraw().to_string();
        match (said, field.type_name().as_deref(), stored) {
            (Some(Said::Plain), _, None) => Ok(Self::Plain),
            (Some(Said::Plain), _, Some(_)) => {
                refusal("a field that is not stored has no name to be stored under: remove `name` or `default`")
            }
            (Some(Said::State), _, stored) => Ok(Self::State(stored.unwrap_or_else(own))),
            (None, Some("Context"), None) => Ok(Self::Context),
            (None, Some("Context"), Some(_)) => refusal("a `Context` is not stored under a name: remove `name`"),
            (None, Some("State" | "Paged"), stored) => Ok(Self::State(stored.unwrap_or_else(own))),
            (None, _, Some(_)) => refusal(
                "only state has a name to be stored under: make the field a `State<..>`, or add `state` if its type is one by \
                 another name",
            ),
            (None, _, None) => Ok(Self::Plain),
        }
    }

    /// The name that a field which is kept is opened by.
    fn key(&self, field: &Field<'_>) -> Option<String> {
        match self {
            Self::State(stored) => Some(stored.clone()),
            Self::Context => Some(field.name.unraw().to_string()),
            Self::Plain => None,
        }
    }
}

/// A name that a field is stored under. Those of dynamic state start with a zero, and are not to meet it.
fn field_name(meta: &ParseNestedMeta<'_>) -> syn::Result<String> {
    let name = checked_name(meta)?;
    match name.starts_with('\0') {
        true => {
            Err(meta
                .error("the name of a field does not start with a zero, which stands before names of dynamic state"))
        }
        false => Ok(name),
    }
}

/// Refuses two fields that would be stored as one, and two contexts.
pub(super) fn refuse_clashes(fields: &[ActorField<'_>]) -> syn::Result<()> {
    let mut stored = BTreeMap::new();
    let mut context = None;
    all(fields.iter().map(|ActorField { field, content }| {
        let (earlier, what) = match content {
            Content::State(name) => {
                (stored.insert(name, &field.name), format!("would be stored under the name {name:?}"))
            }
            Content::Context => (context.replace(&field.name), "are the `Context`".to_owned()),
            Content::Plain => return Ok(()),
        };
        let Some(earlier) = earlier else { return Ok(()) };
        let remedy = match content {
            Content::Context => "remove one, both would be the same",
            _ => "give one another by `#[actor(name = \"..\")]`",
        };
        Err(syn::Error::new(field.name.span(), format!("`{earlier}` and `{}` {what}: {remedy}", field.name)))
    }))
    .map(drop)
}
