//! `#[derive(Worker)]`.

mod attribute;
mod field;

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::derive::{Kind, OpenedFields, all, fields_of_one_type, offers, text};
use attribute::WorkerAttribute;
use field::WorkerField;

const WORKER: Kind =
    Kind { noun: "a worker", word: "worker", why_names: "its `WorkerContext`, and others that start as their default" };

pub(crate) fn expand(item: &DeriveInput) -> syn::Result<TokenStream> {
    let fields = all(fields_of_one_type(item, &WORKER)?.into_iter().map(WorkerField::read))?;
    let attribute = WorkerAttribute::read(&item.attrs)?;
    let (worker, text) = (&item.ident, text(attribute.name.clone(), &item.ident));
    let interfaces = offers(&attribute.implements, "offer");
    let options = attribute.expand_options();
    let opened = fields.iter().map(WorkerField::expand);
    let by_expression = OpenedFields::new(fields.iter().filter_map(WorkerField::opened));
    let open = match by_expression.is_empty() {
        true => quote! {
            ::mainstay::__private::OpenWorker::Now(|opening| {
                let _ = opening;
                Self { #(#opened),* }
            })
        },
        false => {
            let before = by_expression.expand_let(&quote!(::core::clone::Clone::clone(&context)));
            quote! {
                ::mainstay::__private::OpenWorker::Later(|context| ::std::boxed::Box::pin(async move {
                    #before
                    let opening = &::mainstay::__private::WorkerOpening::of(&context);
                    let _ = opening;
                    ::core::result::Result::Ok(Self { #(#opened),* })
                }))
            }
        }
    };
    Ok(quote! {
        #[automatically_derived]
        impl ::mainstay::__private::Worker for #worker {
            const NAME: &'static str = #text;

            #[allow(clippy::needless_update)]
            fn options() -> ::mainstay::__private::PoolOptions {
                #options
            }

            fn interfaces(
                interfaces: &mut ::mainstay::__private::Interfaces<::mainstay::__private::WorkerPool<Self>>,
            ) {
                let _ = &interfaces;
                #(#interfaces)*
            }

            const OPEN: ::mainstay::__private::OpenWorker<Self> = #open;
        }
    })
}
