//! `#[interface]`.

mod expand;
mod method;
mod refuse;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt as _;
use syn::{Attribute, Ident, ItemTrait, TraitItem, Visibility};

use method::Method;
use refuse::Refusals;

/// A trait that can be called from anywhere.
pub(crate) struct Interface {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    name: Ident,
    methods: Vec<Method>,
}

pub(crate) fn expand(arguments: TokenStream, item: ItemTrait) -> TokenStream {
    match Interface::read(arguments, &item) {
        Ok(interface) => interface.expand(),
        Err(error) => {
            // The trait stays, so that its users do not add errors of their own.
            let error = error.into_compile_error();
            quote! { #error #[allow(async_fn_in_trait)] #item }
        }
    }
}

impl Interface {
    fn read(arguments: TokenStream, item: &ItemTrait) -> syn::Result<Self> {
        let mut refusals = Refusals::default();
        if !arguments.is_empty() {
            refusals.add(arguments, "`#[interface]` takes no arguments: remove them");
        }
        if !item.generics.params.is_empty() || item.generics.where_clause.is_some() {
            refusals.add(
                &item.generics,
                "an interface cannot be generic, because callers elsewhere would not know the type: name the type, or write one \
                 interface for each",
            );
        }
        if !item.supertraits.is_empty() {
            refusals.add(
                &item.supertraits,
                "an interface cannot have supertraits: list both traits in `implements(..)` instead",
            );
        }
        if let Some(unsafety) = &item.unsafety {
            refusals.add(unsafety, "an interface cannot be unsafe: remove `unsafe`");
        }
        let methods = item.items.iter().filter_map(|part| match part {
            TraitItem::Fn(function) => Method::read(function, &mut refusals),
            other => {
                refusals.add(other, "an interface has async methods only: move this to another trait");
                None
            }
        });
        let methods = methods.collect();
        refusals.finish()?;
        Ok(Self { attributes: item.attrs.clone(), visibility: item.vis.clone(), name: item.ident.clone(), methods })
    }

    /// The name of the proxy.
    fn proxy(&self) -> Ident {
        Ident::new(&format!("{}Ref", self.name.unraw()), self.name.span())
    }

    /// True if no method needs the target for itself.
    fn is_shared(&self) -> bool {
        self.methods.iter().all(|method| !method.is_exclusive)
    }
}

/// A name that no user of the macro has.
fn hidden(name: &str) -> Ident {
    Ident::new(&format!("__{name}"), Span::call_site())
}
