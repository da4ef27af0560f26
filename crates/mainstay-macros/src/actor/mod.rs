//! `#[derive(Actor)]`.

mod attribute;
mod field;

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::derive::{Kind, OpenedFields, all, fields, offers};
use attribute::ActorAttribute;
use field::{ActorField, refuse_clashes};

const ACTOR: Kind =
    Kind { noun: "an actor", word: "actor", why_names: "those of type `State` are stored under their names" };

pub(crate) fn expand(item: &DeriveInput) -> syn::Result<TokenStream> {
    let fields = all(fields(item, &ACTOR)?.into_iter().map(ActorField::read))?;
    refuse_clashes(&fields)?;
    let ActorAttribute { implements, partitions, level, name } = ActorAttribute::read(item)?;
    let actor = &item.ident;
    let (generics, arguments, bounds) = item.generics.split_for_impl();
    let interfaces = offers(&implements, "offer");
    let opened = fields.iter().map(ActorField::expand_open);
    let sealed: Vec<_> = fields.iter().filter_map(ActorField::expand_seal).collect();
    let keeps = !sealed.is_empty();
    let stored = fields.iter().filter_map(ActorField::stored_name);
    let restored = fields.iter().filter_map(ActorField::expand_restore);
    let by_expression = OpenedFields::new(fields.iter().filter_map(ActorField::opened));
    let open = match by_expression.is_empty() {
        true => quote! {
            ::mainstay::__private::OpenActor::Now(|opening| {
                let _ = opening;
                ::core::result::Result::Ok(Self { #(#opened),* })
            })
        },
        false => {
            let before = by_expression.expand_let(&quote!(context));
            quote! {
                ::mainstay::__private::OpenActor::Later(|opening, context| ::std::boxed::Box::pin(async move {
                    #before
                    let opening = &opening;
                    opening.load(|| ::core::result::Result::Ok(Self { #(#opened),* }))
                }))
            }
        }
    };
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::mainstay::__private::Actor for #actor #arguments #bounds {
            const NAME: &'static str = #name;
            const LEVEL: ::mainstay::Level = ::mainstay::Level::#level;

            // A constant of `Probe` itself goes before that of the trait, and is there if the actor implements what it
            // asks for.
            const LIFECYCLE: ::core::option::Option<::mainstay::__private::LifecycleHooks<Self>> = {
                #[allow(unused_imports)]
                use ::mainstay::__private::NoLifecycle as _;
                ::mainstay::__private::Probe::<Self>::LIFECYCLE
            };
            const REMINDABLE: ::core::option::Option<::mainstay::__private::RemindHook<Self>> = {
                #[allow(unused_imports)]
                use ::mainstay::__private::NotRemindable as _;
                ::mainstay::__private::Probe::<Self>::REMINDABLE
            };

            const FIELDS: &'static [&'static str] = &[#(#stored),*];

            const KEEPS: bool = #keeps;

            const OPEN: ::mainstay::__private::OpenActor<Self> = #open;

            fn partitions() -> u32 {
                #partitions
            }

            fn interfaces(
                interfaces: &mut ::mainstay::__private::Interfaces<::mainstay::__private::ActorCell<Self>>,
            ) {
                let _ = &interfaces;
                #(#interfaces)*
            }

            fn seal(&mut self, seal: &mut ::mainstay::__private::Seal<'_>) -> ::mainstay::Result<()> {
                let _ = &seal;
                #(#sealed)*
                ::core::result::Result::Ok(())
            }

            fn restore(&mut self, opening: &::mainstay::__private::ActorOpening<'_>) -> ::mainstay::Result<()> {
                let _ = opening;
                #(#restored)*
                ::core::result::Result::Ok(())
            }
        }
    })
}
