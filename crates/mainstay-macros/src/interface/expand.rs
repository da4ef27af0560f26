use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;

use super::method::{Method, words};
use super::{Interface, hidden};

impl Interface {
    /// The trait, its proxy, and what ties the two together.
    pub(super) fn expand(&self) -> TokenStream {
        let (item, proxy, tie) = (self.expand_trait(), self.expand_proxy(), self.expand_tie());
        quote! { #item #proxy #tie }
    }

    /// The trait as it was written, with futures that can be sent. An `impl` says `async fn` all the same.
    fn expand_trait(&self) -> TokenStream {
        let Self { attributes, visibility, name, .. } = self;
        let proxy = self.proxy();
        let methods = self.methods.iter().map(|method| {
            let Method { attributes, name, output, .. } = method;
            let (receiver, arguments) = (method.receiver(), method.typed_arguments());
            quote! {
                #(#attributes)*
                fn #name(#receiver #(, #arguments)*)
                    -> impl ::core::future::Future<Output = #output> + ::core::marker::Send;
            }
        });
        quote! {
            #(#attributes)*
            #visibility trait #name: ::core::marker::Send + ::core::marker::Sync + 'static {
                #(#methods)*

                #[doc(hidden)]
                fn __interface() -> ::core::marker::PhantomData<#proxy>
                where
                    Self: ::core::marker::Sized,
                {
                    ::core::marker::PhantomData
                }
            }
        }
    }

    fn expand_proxy(&self) -> TokenStream {
        let Self { visibility, name, .. } = self;
        let proxy = self.proxy();
        let words = words(&self.attributes);
        let first = format!("Calls a [`{name}`], wherever it is. Cheap to clone.");
        quote! {
            #[doc = #first]
            #[doc = ""]
            #(#words)*
            #[derive(::core::clone::Clone, ::core::fmt::Debug)]
            #visibility struct #proxy {
                caller: ::mainstay::__private::Caller,
            }
        }
    }

    /// In a block of its own, where its names are in nobody's way.
    fn expand_tie(&self) -> TokenStream {
        let (name, proxy) = (&self.name, self.proxy());
        let (object, host) = (hidden("Object"), hidden("Host"));
        let text = name.unraw().to_string();
        let records = self.methods.iter().map(|method| method.expand_record(name));
        let declared = self.methods.iter().map(Method::expand_declaration);
        let turns = self.methods.iter().map(Method::expand_turn);
        let calls = self.methods.iter().map(|method| method.expand_call(&text));
        let (bound, marker) = match self.is_shared() {
            true => (quote!(Host), quote! { impl ::mainstay::__private::SharedInterface for #proxy {} }),
            false => (quote!(ExclusiveHost), quote!()),
        };
        quote! {
            #[allow(non_camel_case_types, missing_docs, unreachable_pub, private_interfaces, dead_code, clippy::all)]
            const _: () = {
                #(#records)*

                pub trait #object: ::core::marker::Send + ::core::marker::Sync + 'static {
                    #(#declared)*
                }

                impl<#host> #object for #host
                where
                    #host: ::mainstay::__private::#bound,
                    #host::Target: #name,
                {
                    #(#turns)*
                }

                impl ::mainstay::__private::Proxy for #proxy {
                    type Object = dyn #object;
                    const INTERFACE: &'static str = #text;

                    fn from_caller(caller: ::mainstay::__private::Caller) -> Self {
                        Self { caller }
                    }

                    fn caller(&self) -> &::mainstay::__private::Caller {
                        &self.caller
                    }
                }

                impl<#host> ::mainstay::__private::Offered<#host> for #proxy
                where
                    #host: ::mainstay::__private::#bound,
                    #host::Target: #name,
                {
                    fn object(host: ::std::sync::Arc<#host>) -> ::std::sync::Arc<dyn #object> {
                        host
                    }
                }

                #marker

                impl #proxy {
                    #(#calls)*
                }
            };
        }
    }
}

impl Method {
    fn receiver(&self) -> TokenStream {
        if self.is_exclusive { quote!(&mut self) } else { quote!(&self) }
    }

    fn typed_arguments(&self) -> impl Iterator<Item = TokenStream> {
        self.arguments.iter().map(|(name, ty)| quote!(#name: #ty))
    }

    /// The arguments of a call as one value.
    fn record(&self) -> syn::Ident {
        hidden(&format!("Arguments_{}", self.name.unraw()))
    }

    fn expand_record(&self, interface: &syn::Ident) -> TokenStream {
        let (record, target, output, method) = (self.record(), hidden("Target"), &self.output, &self.name);
        let (arguments, names) = (self.typed_arguments(), self.arguments.iter().map(|(name, _)| name));
        let checks = self.arguments.iter().map(|(_, ty)| {
            quote_spanned! { ty.span() => ::mainstay::__private::assert_contract::<#ty>(); }
        });
        let (kind, borrow) = match self.is_exclusive {
            true => (quote!(ExclusiveMethod), quote!(&mut)),
            false => (quote!(SharedMethod), quote!(&)),
        };
        quote! {
            pub struct #record { #(#arguments),* }

            const _: fn() = || { #(#checks)* };

            impl<#target: #interface> ::mainstay::__private::#kind<#target, #output> for #record {
                fn invoke(
                    self,
                    target: #borrow #target,
                ) -> impl ::core::future::Future<Output = #output> + ::core::marker::Send {
                    <#target as #interface>::#method(target #(, self.#names)*)
                }
            }
        }
    }

    /// The method of an object that is reached without knowing its type.
    fn expand_declaration(&self) -> TokenStream {
        let (method, record, output) = (&self.name, self.record(), &self.output);
        quote! {
            fn #method(
                self: ::std::sync::Arc<Self>,
                arguments: #record,
                call: ::mainstay::__private::Call,
            ) -> ::mainstay::__private::Start<<#output as ::mainstay::__private::Outcome>::Reply, #record>;
        }
    }

    fn expand_turn(&self) -> TokenStream {
        let (method, record, output) = (&self.name, self.record(), &self.output);
        let turn = match self.is_exclusive {
            true => quote!(ExclusiveHost::exclusive),
            false => quote!(Host::shared),
        };
        quote! {
            fn #method(
                self: ::std::sync::Arc<Self>,
                arguments: #record,
                call: ::mainstay::__private::Call,
            ) -> ::mainstay::__private::Start<<#output as ::mainstay::__private::Outcome>::Reply, #record> {
                ::mainstay::__private::#turn::<#output, #record>(self, arguments, call)
            }
        }
    }

    /// What the caller gets: `Result<T>` where the method returns `Result<Deferred<T>>`.
    fn reply(&self) -> TokenStream {
        let output = &self.output;
        match later(output) {
            true => quote!(<#output as ::mainstay::__private::Outcome>::Reply),
            false => quote!(#output),
        }
    }

    /// The method of the proxy.
    fn expand_call(&self, interface: &str) -> TokenStream {
        let reply = self.reply();
        let (method, record, output, text) = (&self.name, self.record(), &self.output, self.name.unraw().to_string());
        let (arguments, words) = (self.typed_arguments(), self.words());
        let names: Vec<_> = self.arguments.iter().map(|(name, _)| name).collect();
        let object = hidden("Object");
        // The span of the output, because a type that cannot be returned is reported here.
        let call = quote_spanned! { output.span() =>
            ::mainstay::__private::Caller::call::<dyn #object, #output, #record>(
                &self.caller,
                &METHOD,
                arguments,
                <dyn #object as #object>::#method,
            )
            .await
        };
        quote! {
            #(#words)*
            pub async fn #method(&self #(, #arguments)*) -> #reply {
                static METHOD: ::mainstay::__private::Method = ::mainstay::__private::Method::new(#interface, #text);
                let arguments = #record { #(#names),* };
                #call
            }
        }
    }
}

/// True for `Result<Deferred<..>, ..>`, by the names that are written.
fn later(output: &syn::Type) -> bool {
    let arguments = |ty: &syn::Type| match ty {
        syn::Type::Path(path) => path.path.segments.last().cloned(),
        _ => None,
    };
    let Some(syn::PathArguments::AngleBracketed(inner)) = arguments(output).map(|segment| segment.arguments) else {
        return false;
    };
    match inner.args.first() {
        Some(syn::GenericArgument::Type(ty)) => arguments(ty).is_some_and(|segment| segment.ident == "Deferred"),
        _ => false,
    }
}
