//! `#[derive(Service)]`.

mod attribute;
mod field;
mod partitions;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Fields};

use attribute::ServiceAttribute;
use field::Field;

pub(crate) fn expand(item: &DeriveInput) -> syn::Result<TokenStream> {
    let fields = fields(item)?;
    let attribute = ServiceAttribute::read(&item.attrs)?;
    let name = &item.ident;
    let text = attribute.name.clone().unwrap_or_else(|| name.unraw().to_string());
    let (level, partitioning) = (&attribute.level, attribute.partitions.expand());
    let interfaces = attribute.implements.iter().map(|interface| {
        quote_spanned! { interface.span() => interfaces.add(<Self as #interface>::__interface()); }
    });
    let opened = fields.iter().map(Field::expand);
    let runs = attribute.run.is_some();
    let execute = attribute.run.map(|run| {
        // An inherent `run` goes before that of the trait, which stands in for one that is missing.
        let running = quote_spanned! { run => ::mainstay::__private::checked_run(#name::run(self, context)).await };
        quote! {
            async fn execute(&self, context: ::mainstay::__private::ServiceContext) -> ::mainstay::Result<()> {
                #[allow(unused_imports)]
                use ::mainstay::__private::WithoutRun as _;
                #running
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl ::mainstay::__private::Service for #name {
            const NAME: &'static str = #text;
            const LEVEL: ::mainstay::Level = ::mainstay::Level::#level;
            const RUNS: bool = #runs;

            fn partitioning() -> ::mainstay::__private::Partitioning {
                #partitioning
            }

            fn interfaces(interfaces: &mut ::mainstay::__private::Interfaces<Self>) {
                let _ = &interfaces;
                #(#interfaces)*
            }

            async fn open(opening: &mut ::mainstay::__private::Opening<'_>) -> ::mainstay::Result<Self> {
                let _ = &opening;
                ::core::result::Result::Ok(Self { #(#opened),* })
            }

            #execute
        }
    })
}

fn fields(item: &DeriveInput) -> syn::Result<Vec<Field>> {
    if !item.generics.params.is_empty() || item.generics.where_clause.is_some() {
        return Err(syn::Error::new_spanned(
            &item.generics,
            "a service cannot be generic, because its name stands for one type: name the types, or write one service for each",
        ));
    }
    let refusal = "a service is a struct with named fields: they are its collections, and their names are stored";
    match &item.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(named) => named.named.iter().map(Field::read).collect(),
            Fields::Unit => Ok(Vec::new()),
            Fields::Unnamed(unnamed) => Err(syn::Error::new_spanned(unnamed, refusal)),
        },
        Data::Enum(data) => Err(syn::Error::new_spanned(data.enum_token, refusal)),
        Data::Union(data) => Err(syn::Error::new_spanned(data.union_token, refusal)),
    }
}
