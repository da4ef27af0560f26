use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::meta::ParseNestedMeta;
use syn::{DeriveInput, Expr, LitInt, LitStr, Path};

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
    /// The name as a constant.
    pub(super) name: TokenStream,
}

impl ActorAttribute {
    pub(super) fn read(item: &DeriveInput) -> syn::Result<Self> {
        let mut interfaces = Vec::new();
        let (mut partitions, mut persistence, mut name) = (None, None, None);
        read(&item.attrs, "actor", |meta| {
            let is = |word| meta.path.is_ident(word);
            if is("implements") {
                interfaces.extend(implements(&meta)?);
                Ok(())
            } else if is("partitions") {
                once(&mut partitions, &meta, |meta| number(meta, 1, u32::MAX.into(), PARTITIONS_FORM))
            } else if is("persistence") {
                once(&mut persistence, &meta, level)
            } else if is("name") {
                once(&mut name, &meta, ActorName::read)
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
            name: ActorName::of(name, item)?,
        })
    }
}

/// What `name = ..` says.
enum ActorName {
    Text(String),
    /// A constant of what the actor is generic in.
    Constant(Box<Expr>),
}

impl ActorName {
    fn read(meta: &ParseNestedMeta<'_>) -> syn::Result<Self> {
        // Looks ahead, because reading a name takes the `=` with it.
        let ahead = meta.input.fork();
        match ahead.parse::<syn::Token![=]>().is_ok() && !ahead.peek(LitStr) {
            true => meta.value()?.parse().map(|name| Self::Constant(Box::new(name))),
            false => checked_name(meta).map(Self::Text),
        }
    }

    /// The name of an actor. One that is generic is several types, and each needs a name.
    fn of(given: Option<Self>, item: &DeriveInput) -> syn::Result<TokenStream> {
        let is_generic = !item.generics.params.is_empty();
        match given {
            Some(Self::Constant(name)) => Ok(name.into_token_stream()),
            _ if is_generic => Err(syn::Error::new_spanned(
                &item.generics,
                "a generic actor is an actor for each type, and each needs a name of its own: give it by a constant of the \
                 type, `#[actor(name = T::NAME)]`",
            )),
            Some(Self::Text(name)) => Ok(quote!(#name)),
            None => {
                let name = item.ident.unraw().to_string();
                Ok(quote!(#name))
            }
        }
    }
}
