//! `#[derive(Service)]`.

mod attribute;
mod field;
mod partitions;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::DeriveInput;

use crate::derive::{Kind, OpenedFields, all, fields_of_one_type, offers, text};
use attribute::ServiceAttribute;
use field::ServiceField;

const SERVICE: Kind =
    Kind { noun: "a service", word: "service", why_names: "they are its collections, and their names are stored" };

pub(crate) fn expand(item: &DeriveInput) -> syn::Result<TokenStream> {
    let fields = all(fields_of_one_type(item, &SERVICE)?.into_iter().map(ServiceField::read))?;
    let attribute = ServiceAttribute::read(&item.attrs)?;
    let name = &item.ident;
    let text = text(attribute.name.clone(), name);
    let (level, partitioning) = (&attribute.level, attribute.partitions.expand());
    let interfaces = offers(&attribute.implements, "add");
    let opened = fields.iter().map(ServiceField::expand);
    let collections = fields.iter().filter_map(ServiceField::collection);
    let by_expression = OpenedFields::new(fields.iter().filter_map(ServiceField::opened));
    let before = (!by_expression.is_empty()).then(|| by_expression.expand_let(&quote!(opening.context())));
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
            const COLLECTIONS: &'static [&'static str] = &[#(#collections),*];

            fn partitioning() -> ::mainstay::__private::Partitioning {
                #partitioning
            }

            fn interfaces(interfaces: &mut ::mainstay::__private::Interfaces<::mainstay::__private::ServiceHost<Self>>) {
                let _ = &interfaces;
                #(#interfaces)*
            }

            async fn open(opening: &mut ::mainstay::__private::ServiceOpening<'_>) -> ::mainstay::Result<Self> {
                let _ = &opening;
                #before
                ::core::result::Result::Ok(Self { #(#opened),* })
            }

            #execute
        }
    })
}
