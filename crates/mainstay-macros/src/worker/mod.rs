//! `#[derive(Worker)]`.

mod attribute;
mod field;

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::derive::{Kind, all, fields_of_one_type, offers, text};
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

            fn open(opening: &::mainstay::__private::WorkerOpening<'_>) -> Self {
                let _ = opening;
                Self { #(#opened),* }
            }
        }
    })
}
