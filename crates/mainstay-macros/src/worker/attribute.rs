use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, LitInt, Path};

use crate::derive::{checked_name, implements, number, once, read};

/// What `#[worker(..)]` on a struct says. What it does not say is left to the runtime.
pub(super) struct WorkerAttribute {
    pub(super) implements: Vec<Path>,
    pub(super) name: Option<String>,
    min: Option<LitInt>,
    max: Option<LitInt>,
    waiting_max: Option<LitInt>,
    idle_ms: Option<LitInt>,
}

impl WorkerAttribute {
    pub(super) fn read(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut interfaces = Vec::new();
        let (mut name, mut min, mut max, mut waiting_max, mut idle_ms) = (None, None, None, None, None);
        let most = u64::from(u32::MAX);
        read(attributes, "worker", |meta| {
            let is = |word| meta.path.is_ident(word);
            if is("implements") {
                interfaces.extend(implements(&meta)?);
                Ok(())
            } else if is("min") {
                let form = "give the number of instances that are always there, for example `min = 1`";
                once(&mut min, &meta, |meta| number(meta, 0, most, form))
            } else if is("max") {
                let form = "give the largest number of instances, at least 1, for example `max = 8`";
                once(&mut max, &meta, |meta| number(meta, 1, most, form))
            } else if is("waiting_max") {
                let form = "give the number of calls that may wait, for example `waiting_max = 1000`";
                once(&mut waiting_max, &meta, |meta| number(meta, 0, most, form))
            } else if is("idle_ms") {
                let form =
                    "give the milliseconds after which an idle instance is dropped, for example `idle_ms = 60_000`";
                once(&mut idle_ms, &meta, |meta| number(meta, 0, u64::MAX, form))
            } else if is("name") {
                once(&mut name, &meta, checked_name)
            } else {
                Err(meta.error(
                    "a worker does not know this: use `implements(..)`, `min = 1`, `max = 8`, `waiting_max = 1000`, \
                     `idle_ms = 60_000` or `name = \"..\"`",
                ))
            }
        })?;
        if let (Some(least), Some(largest)) = (&min, &max)
            && least.base10_parse::<u64>()? > largest.base10_parse()?
        {
            return Err(syn::Error::new(least.span(), "`min` is above `max`: lower it, or raise `max`"));
        }
        Ok(Self { implements: interfaces, name, min, max, waiting_max, idle_ms })
    }

    /// The bounds of the pool.
    pub(super) fn expand_options(&self) -> TokenStream {
        let counts = [("min", &self.min), ("max", &self.max), ("waiting_max", &self.waiting_max)];
        let counts = counts.into_iter().filter_map(|(field, count)| {
            let (field, count) = (syn::Ident::new(field, proc_macro2::Span::call_site()), count.as_ref()?);
            Some(quote!(#field: #count,))
        });
        let idle = self.idle_ms.as_ref().map(|ms| quote!(idle_time: ::core::time::Duration::from_millis(#ms),));
        quote! {
            ::mainstay::__private::PoolOptions { #(#counts)* #idle ..::core::default::Default::default() }
        }
    }
}
