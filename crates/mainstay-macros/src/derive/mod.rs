//! What the derive macros have in common: the struct that they are put on, and the settings in their attributes.
//!
//! A derive macro names itself once, as a [`Kind`], which messages to the user are made of.

mod kind;
mod opened;
mod settings;
mod shape;

pub(crate) use kind::Kind;
pub(crate) use opened::{OpenedFields, local, opened};
pub(crate) use settings::{all, checked_name, implements, level, number, once, read};
pub(crate) use shape::{Field, fields, fields_of_one_type};

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::Path;
use syn::ext::IdentExt as _;

/// The name that a type goes by: the one that its attribute gives, or its own.
pub(crate) fn text(given: Option<String>, own: &Ident) -> String {
    given.unwrap_or_else(|| own.unraw().to_string())
}

/// Where to point at in an error, with names that are this macro's own: what is pointed at may come from a macro of the
/// user, in which our names mean nothing.
pub(crate) fn place(of: &impl syn::spanned::Spanned) -> Span {
    of.span().resolved_at(Span::call_site())
}

/// Lists the interfaces, by a method of what collects them. Where one is not implemented, its name is underlined. The name of
/// the function is what the author of a trait without `#[interface]` reads: there is none of that name in the trait.
pub(crate) fn offers(interfaces: &[Path], method: &str) -> impl Iterator<Item = TokenStream> {
    interfaces.iter().map(move |interface| {
        let place = place(interface);
        let method = Ident::new(method, place);
        quote_spanned! { place => interfaces.#method(<Self as #interface>::__add_the_attribute_interface_to_this_trait()); }
    })
}
