//! `#[interface]`.

mod argument;
mod arguments;
mod expand;
mod method;
mod refuse;
mod wire_name;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt as _;
use syn::{Attribute, FnArg, GenericParam, Generics, Ident, ItemTrait, TraitItem, Visibility};

use arguments::Arguments;
use method::Method;
use refuse::Refusals;

/// A trait that can be called from anywhere.
pub(crate) struct Interface {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    name: Ident,
    generics: Generics,
    methods: Vec<Method>,
    arguments: Arguments,
}

pub(crate) fn expand(arguments: TokenStream, item: ItemTrait) -> TokenStream {
    match Interface::read(arguments, &item) {
        Ok(interface) => interface.expand(),
        Err(error) => {
            // The trait stays, so that its users do not add errors of their own.
            let (error, item) = (error.into_compile_error(), without_settings(item));
            quote! { #error #[allow(async_fn_in_trait)] #item }
        }
    }
}

/// The trait without the attributes that this macro alone knows.
fn without_settings(mut item: ItemTrait) -> ItemTrait {
    for part in &mut item.items {
        let TraitItem::Fn(function) = part else { continue };
        function.attrs.retain(|attribute| !attribute.path().is_ident("method"));
        for input in &mut function.sig.inputs {
            if let FnArg::Typed(argument) = input {
                argument.attrs.retain(|attribute| !attribute.path().is_ident("argument"));
            }
        }
    }
    item
}

impl Interface {
    fn read(arguments: TokenStream, item: &ItemTrait) -> syn::Result<Self> {
        let mut refusals = Refusals::default();
        let arguments = Arguments::read(arguments).unwrap_or_else(|error| {
            refusals.include(error);
            Arguments::default()
        });
        for lifetime in item.generics.lifetimes() {
            refusals.add(
                lifetime,
                "an interface cannot borrow, because a call may go to another process: remove the lifetime",
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
        let methods: Vec<Method> = methods.collect();
        method::refuse_same(&methods, &mut refusals);
        refusals.finish()?;
        Ok(Self {
            attributes: item.attrs.clone(),
            visibility: item.vis.clone(),
            name: item.ident.clone(),
            generics: item.generics.clone(),
            methods,
            arguments,
        })
    }

    /// The name by which other processes know the interface: independent of the module that it is in.
    fn wire_name(&self) -> String {
        self.arguments.name.as_ref().map_or_else(|| self.name.unraw().to_string(), syn::LitStr::value)
    }

    /// The name of the proxy.
    fn proxy(&self) -> Ident {
        Ident::new(&format!("{}Ref", self.name.unraw()), self.name.span())
    }
}

/// The generics with one more parameter, which comes last.
fn and(generics: &Generics, parameter: &Ident) -> Generics {
    let mut generics = generics.clone();
    generics.params.push(GenericParam::Type(parameter.clone().into()));
    generics
}

/// Stands for the types that something is generic in, without owning one.
fn marker(generics: &Generics) -> TokenStream {
    let types = generics.type_params().map(|parameter| &parameter.ident);
    quote!(::core::marker::PhantomData<fn() -> (#(#types,)*)>)
}

/// A name that no user of the macro has.
fn hidden(name: &str) -> Ident {
    Ident::new(&format!("__{name}"), Span::call_site())
}
