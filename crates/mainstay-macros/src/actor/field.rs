use std::collections::BTreeMap;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Expr;
use syn::ext::IdentExt as _;
use syn::meta::ParseNestedMeta;

use super::ACTOR;
use crate::derive::{Field, all, checked_name, local, once, opened, place, read};

/// A field of an actor, and what it is filled with.
pub(super) struct ActorField<'i> {
    field: Field<'i>,
    content: Content,
    /// The expression that it is opened by, if it is.
    opened: Option<Expr>,
}

/// What a field is filled with.
#[derive(Clone, PartialEq)]
enum Content {
    /// State, stored under this name.
    State(String),
    Context,
    /// What the node was given.
    Provided,
    /// Its default, which is not stored.
    Plain,
}

impl<'i> ActorField<'i> {
    pub(super) fn read(field: Field<'i>) -> syn::Result<Self> {
        if let Some(expression) = opened(&field, &ACTOR)? {
            return Ok(Self { field, content: Content::Plain, opened: Some(expression) });
        }
        let (mut state, mut plain, mut stored) = (None, None, None);
        read(field.attributes, "actor", |meta| {
            if meta.path.is_ident("name") {
                once(&mut stored, &meta, field_name)
            } else if meta.path.is_ident("state") {
                once(&mut state, &meta, |_| Ok(()))
            } else if meta.path.is_ident("default") {
                once(&mut plain, &meta, |_| Ok(()))
            } else {
                Err(meta.error(
                    "a field of an actor does not know this: use `name = \"..\"` or `state` for state, or `default`",
                ))
            }
        })?;
        let type_name = field.type_name();
        let content = match (state, plain, type_name.as_deref()) {
            (Some(()), Some(()), _) => Err("a field is either `state` or `default`: leave one out"),
            (Some(()), None, _) | (None, None, Some("State" | "Paged")) => {
                Ok(Content::State(stored.unwrap_or_else(|| field.name.unraw().to_string())))
            }
            (None, Some(()), _) if stored.is_some() => {
                Err("a field that is not stored has no name to be stored under: remove `name` or `default`")
            }
            (None, None, Some("Context")) if stored.is_some() => {
                Err("a `Context` is not stored under a name: remove `name`")
            }
            (None, None, Some("Context")) => Ok(Content::Context),
            (None, None, Some("Provided")) if stored.is_some() => {
                Err("what is provided is not stored under a name: remove `name`")
            }
            (None, None, Some("Provided")) => Ok(Content::Provided),
            (None, None, _) if stored.is_some() => Err(
                "only state has a name to be stored under: make the field a `State<..>`, or add `state` if its type is one by \
                     another name",
            ),
            (None, _, _) => Ok(Content::Plain),
        };
        let content = content.map_err(|message| syn::Error::new(field.name.span(), message))?;
        if let (None, Content::Plain, Some(collection @ ("Dictionary" | "Queue" | "ConcurrentQueue"))) =
            (plain, &content, field.generic_type_name().as_deref())
        {
            return Err(syn::Error::new_spanned(
                field.ty,
                format!(
                    "a `{collection}` is kept by a service: an actor keeps a `State<..>` or a `Paged<..>`, or state by name in its \
                     `Context`; if this is a type of your own, add `#[actor(default)]`"
                ),
            ));
        }
        Ok(Self { field, content, opened: None })
    }

    /// The expression that it is opened by, if it is.
    pub(super) fn opened(&self) -> Option<(&Field<'i>, &Expr)> {
        self.opened.as_ref().map(|expression| (&self.field, expression))
    }

    /// The field with its first value.
    pub(super) fn expand_open(&self) -> TokenStream {
        let (name, ty) = (&self.field.name, self.field.ty);
        if self.opened.is_some() {
            let value = local(&self.field);
            return quote!(#name: #value);
        }
        let value = match self.content.key(&self.field) {
            Some(key) => quote_spanned! { place(ty) => <#ty as ::mainstay::__private::Kept>::open(opening, #key)? },
            None if self.content == Content::Provided => quote_spanned! { place(ty) => opening.provided()? },
            None => quote_spanned! { place(ty) => opening.plain::<#ty>() },
        };
        quote!(#name: #value)
    }

    /// Hands over what has changed.
    pub(super) fn expand_seal(&self) -> Option<TokenStream> {
        let (name, ty) = self.kept()?;
        Some(quote_spanned! { place(ty) => <#ty as ::mainstay::__private::Kept>::seal(&mut self.#name, seal)?; })
    }

    /// Goes back to what is stored.
    pub(super) fn expand_restore(&self) -> Option<TokenStream> {
        let (name, ty) = self.kept()?;
        Some(quote_spanned! { place(ty) => <#ty as ::mainstay::__private::Kept>::restore(&mut self.#name, opening)?; })
    }

    /// The name that it is stored under, if it is.
    pub(super) fn stored_name(&self) -> Option<&str> {
        match &self.content {
            Content::State(stored) => Some(stored),
            Content::Context | Content::Provided | Content::Plain => None,
        }
    }

    fn kept(&self) -> Option<(&syn::Ident, &syn::Type)> {
        let is_kept = !matches!(self.content, Content::Plain | Content::Provided);
        is_kept.then_some((&self.field.name, self.field.ty))
    }
}

impl Content {
    /// The name that a field which is kept is opened by.
    fn key(&self, field: &Field<'_>) -> Option<String> {
        match self {
            Self::State(stored) => Some(stored.clone()),
            Self::Context => Some(field.name.unraw().to_string()),
            Self::Provided | Self::Plain => None,
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
    all(fields.iter().map(|ActorField { field, content, .. }| {
        let (earlier, what) = match content {
            Content::State(name) => {
                (stored.insert(name, &field.name), format!("would be stored under the name {name:?}"))
            }
            Content::Context => (context.replace(&field.name), "are the `Context`".to_owned()),
            Content::Provided | Content::Plain => return Ok(()),
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
