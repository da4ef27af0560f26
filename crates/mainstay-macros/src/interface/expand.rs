use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;

use super::argument::ArgumentDefault;
use super::method::{Method, words};
use super::{Interface, and, hidden, marker};

impl Interface {
    /// The trait, its proxy, and what ties the two together.
    pub(super) fn expand(&self) -> TokenStream {
        let (item, proxy, tie) = (self.expand_trait(), self.expand_proxy(), self.expand_tie());
        quote! { #item #proxy #tie }
    }

    /// The trait as it was written, with futures that can be sent. An `impl` says `async fn` all the same.
    fn expand_trait(&self) -> TokenStream {
        let Self { attributes, visibility, name, generics, .. } = self;
        let (proxy, (_, arguments, bounds)) = (self.proxy(), generics.split_for_impl());
        let methods = self.methods.iter().map(|method| {
            let Method { attributes, name, output, .. } = method;
            let (receiver, arguments) = (method.receiver(), method.typed_arguments());
            let end = match &method.body {
                None => quote!(;),
                Some(body) => quote!({ async move #body }),
            };
            quote! {
                #(#attributes)*
                fn #name(#receiver #(, #arguments)*)
                    -> impl ::core::future::Future<Output = #output> + ::core::marker::Send #end
            }
        });
        quote! {
            #(#attributes)*
            #visibility trait #name #generics: ::core::marker::Send + ::core::marker::Sync + 'static #bounds {
                #(#methods)*

                #[doc(hidden)]
                fn __add_the_attribute_interface_to_this_trait() -> ::core::marker::PhantomData<#proxy #arguments>
                where
                    Self: ::core::marker::Sized,
                {
                    ::core::marker::PhantomData
                }
            }
        }
    }

    fn expand_proxy(&self) -> TokenStream {
        let Self { visibility, name, generics, .. } = self;
        let (proxy, (_, _, bounds)) = (self.proxy(), generics.split_for_impl());
        let (field, marker) = (hidden("marker"), marker(generics));
        let words = words(&self.attributes);
        let first = format!("Calls a [`{name}`], wherever it is. Cheap to clone.");
        quote! {
            #[doc = #first]
            #[doc = ""]
            #(#words)*
            #visibility struct #proxy #generics #bounds {
                caller: ::mainstay::__private::Caller,
                #field: #marker,
            }
        }
    }

    /// In a block of its own, where its names are in nobody's way.
    fn expand_tie(&self) -> TokenStream {
        let (name, proxy, generics) = (&self.name, self.proxy(), &self.generics);
        let (object, marker) = (hidden("Object"), hidden("marker"));
        let (text, proxy_text) = (self.wire_name(), proxy.to_string());
        let methods = self.methods.iter().map(|method| method.expand_static(&text));
        let wired = self.methods.iter().map(|method| method.expand_wired(generics));
        let records = self.methods.iter().map(|method| method.expand_record(name, generics));
        let declared = self.methods.iter().map(|method| method.expand_declaration(generics));
        let calls = self.methods.iter().map(|method| method.expand_call(generics));
        let (impl_generics, arguments, bounds) = generics.split_for_impl();
        let hosted = self.expand_hosted();
        let served_by = self.arguments.served_by.as_ref().map(|call| {
            quote! { const SERVED_BY: ::core::option::Option<&'static str> = ::core::option::Option::Some(#call); }
        });
        quote! {
            #[allow(non_camel_case_types, non_upper_case_globals, missing_docs, unreachable_pub, private_interfaces, dead_code, clippy::all)]
            const _: () = {
                #(#methods)*

                #(#records)*

                pub trait #object #generics: ::core::marker::Send + ::core::marker::Sync + 'static #bounds {
                    #(#declared)*
                }

                #hosted

                impl #impl_generics ::core::clone::Clone for #proxy #arguments #bounds {
                    fn clone(&self) -> Self {
                        Self {
                            caller: ::core::clone::Clone::clone(&self.caller),
                            #marker: ::core::marker::PhantomData,
                        }
                    }
                }

                impl #impl_generics ::core::fmt::Debug for #proxy #arguments #bounds {
                    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                        f.debug_struct(#proxy_text).field("caller", &self.caller).finish()
                    }
                }

                impl #impl_generics ::mainstay::__private::Proxy for #proxy #arguments #bounds {
                    type Object = dyn #object #arguments;
                    const INTERFACE: &'static str = #text;
                    const METHODS: &'static [::mainstay::__private::WireMethod] = &[#(#wired),*];
                    #served_by

                    fn from_caller(caller: ::mainstay::__private::Caller) -> Self {
                        Self { caller, #marker: ::core::marker::PhantomData }
                    }

                    fn caller(&self) -> &::mainstay::__private::Caller {
                        &self.caller
                    }
                }

                impl #impl_generics #proxy #arguments #bounds {
                    #(#calls)*
                }
            };
        }
    }
}

impl Interface {
    /// What makes the interface one of every host whose object implements it. Where it depends on the configuration whether
    /// there is a method that takes `&mut self`, there is one form for each case.
    fn expand_hosted(&self) -> TokenStream {
        let exclusive: Vec<_> = self.methods.iter().filter(|method| method.is_exclusive).collect();
        if exclusive.is_empty() {
            return self.expand_hosted_by(true, &quote!());
        }
        let conditions: Option<Vec<_>> = exclusive.iter().map(|method| method.condition()).collect();
        let Some(conditions) = conditions else { return self.expand_hosted_by(false, &quote!()) };
        let shared = self.expand_hosted_by(true, &quote!(#[cfg(not(any(#(#conditions),*)))]));
        let exclusive = self.expand_hosted_by(false, &quote!(#[cfg(any(#(#conditions),*))]));
        quote! { #shared #exclusive }
    }

    fn expand_hosted_by(&self, is_shared: bool, condition: &TokenStream) -> TokenStream {
        let (name, proxy, generics) = (&self.name, self.proxy(), &self.generics);
        let (object, host) = (hidden("Object"), hidden("ObjectHost"));
        let turns = self.methods.iter().filter(|method| !(is_shared && method.is_exclusive));
        let turns = turns.map(|method| method.expand_turn(generics));
        let (impl_generics, arguments, bounds) = generics.split_for_impl();
        let bound = if is_shared { quote!(ObjectHost) } else { quote!(ExclusiveHost) };
        let shared = is_shared.then(|| {
            quote! {
                #condition
                impl #impl_generics ::mainstay::__private::SharedInterface for #proxy #arguments #bounds {}
            }
        });
        let mut hosted = and(generics, &host);
        let bounds_of_host = hosted.make_where_clause();
        bounds_of_host.predicates.push(syn::parse_quote!(#host: ::mainstay::__private::#bound));
        bounds_of_host.predicates.push(syn::parse_quote!(#host::Target: #name #arguments));
        let (hosted, _, bounds_of_host) = hosted.split_for_impl();
        quote! {
            #condition
            impl #hosted #object #arguments for ::std::sync::Arc<#host> #bounds_of_host {
                #(#turns)*
            }

            #condition
            impl #hosted ::mainstay::__private::Offered<#host> for #proxy #arguments #bounds_of_host {
                fn object(host: ::std::sync::Arc<#host>) -> ::std::sync::Arc<dyn #object #arguments> {
                    ::std::sync::Arc::new(host)
                }
            }

            #shared
        }
    }
}

impl Method {
    fn receiver(&self) -> TokenStream {
        if self.is_exclusive { quote!(&mut self) } else { quote!(&self) }
    }

    fn typed_arguments(&self) -> impl Iterator<Item = TokenStream> {
        self.arguments.iter().map(|argument| {
            let (name, ty) = (&argument.name, &argument.ty);
            quote!(#name: #ty)
        })
    }

    /// The arguments of a call as one value.
    fn record(&self) -> syn::Ident {
        hidden(&format!("Arguments_{}", self.name.unraw()))
    }

    fn expand_record(&self, interface: &syn::Ident, generics: &syn::Generics) -> TokenStream {
        let (record, target, output, method) = (self.record(), hidden("Target"), &self.output, &self.name);
        let (typed, names) = (self.typed_arguments(), self.arguments.iter().map(|argument| &argument.name));
        let (impl_generics, arguments, bounds) = generics.split_for_impl();
        let (field, marker, conditions) = (hidden("marker"), marker(generics), self.conditions());
        let conditions: Vec<_> = conditions.collect();
        let (sink, reader, count) = (hidden("sink"), hidden("reader"), self.arguments.len());
        // The span of the type, because one that cannot be sent is reported here.
        let added = self.arguments.iter().map(|argument| {
            let (name, ty, wire) = (&argument.name, &argument.ty, &argument.wire);
            quote_spanned! { ty.span() => ::mainstay::__private::add_argument::<#ty>(#sink, #wire, &self.#name)?; }
        });
        let read = self.arguments.iter().map(|argument| {
            let (name, ty, wire) = (&argument.name, &argument.ty, &argument.wire);
            let value = match &argument.default {
                None => quote!(::mainstay::__private::take_argument::<#ty>(#reader, #wire)?),
                Some(ArgumentDefault::OfType) => quote_spanned! { ty.span() =>
                    ::mainstay::__private::take_argument_or::<#ty>(#reader, #wire, <#ty as ::core::default::Default>::default)?
                },
                Some(ArgumentDefault::Value(value)) => quote_spanned! { value.span() =>
                    ::mainstay::__private::take_argument_or::<#ty>(#reader, #wire, || #value)?
                },
            };
            quote!(#name: #value)
        });
        let (kind, borrow) = match self.is_exclusive {
            true => (quote!(ExclusiveMethod), quote!(&mut)),
            false => (quote!(SharedMethod), quote!(&)),
        };
        let mut targeted = and(generics, &target);
        targeted.make_where_clause().predicates.push(syn::parse_quote!(#target: #interface #arguments));
        let (targeted, _, bounds_of_target) = targeted.split_for_impl();
        quote! {
            #(#conditions)*
            pub struct #record #generics #bounds { #(#typed,)* #field: #marker }

            #(#conditions)*
            impl #impl_generics ::mainstay::__private::Arguments for #record #arguments #bounds {
                const COUNT: usize = #count;

                fn add_to(&self, #sink: &mut ::mainstay::__private::ArgumentSink) -> ::mainstay::Result<()> {
                    let _ = &#sink;
                    #(#added)*
                    ::core::result::Result::Ok(())
                }

                fn read(#reader: &mut ::mainstay::__private::ArgumentReader<'_>) -> ::mainstay::Result<Self> {
                    let _ = &#reader;
                    ::core::result::Result::Ok(Self { #(#read,)* #field: ::core::marker::PhantomData })
                }
            }

            #(#conditions)*
            impl #targeted ::mainstay::__private::#kind<#target, #output> for #record #arguments #bounds_of_target {
                fn invoke(
                    self,
                    target: #borrow #target,
                ) -> impl ::core::future::Future<Output = #output> + ::core::marker::Send {
                    <#target as #interface #arguments>::#method(target #(, self.#names)*)
                }
            }
        }
    }

    /// The method of an object that is reached without knowing its type.
    fn expand_declaration(&self, generics: &syn::Generics) -> TokenStream {
        let (method, record, output, (_, arguments, _)) =
            (&self.name, self.record(), &self.output, generics.split_for_impl());
        let conditions = self.conditions();
        quote! {
            #(#conditions)*
            fn #method(
                &self,
                arguments: #record #arguments,
                call: ::mainstay::__private::Call,
                cx: &mut ::core::task::Context<'_>,
            ) -> ::mainstay::__private::Start<<#output as ::mainstay::__private::MethodResult>::Reply, #record #arguments>;
        }
    }

    fn expand_turn(&self, generics: &syn::Generics) -> TokenStream {
        let (method, record, output, (_, arguments, _)) =
            (&self.name, self.record(), &self.output, generics.split_for_impl());
        let turn = match self.is_exclusive {
            true => quote!(ExclusiveHost::exclusive),
            false => quote!(ObjectHost::shared),
        };
        let conditions = self.conditions();
        quote! {
            #(#conditions)*
            fn #method(
                &self,
                arguments: #record #arguments,
                call: ::mainstay::__private::Call,
                cx: &mut ::core::task::Context<'_>,
            ) -> ::mainstay::__private::Start<<#output as ::mainstay::__private::MethodResult>::Reply, #record #arguments> {
                ::mainstay::__private::#turn::<#output, #record #arguments>(self, arguments, call, cx)
            }
        }
    }

    /// What the caller gets: `Result<T>` where the method returns `Result<Deferred<T>>`.
    fn reply(&self) -> TokenStream {
        let output = &self.output;
        match later(output) {
            true => quote!(<#output as ::mainstay::__private::MethodResult>::Reply),
            false => quote!(#output),
        }
    }

    /// The name of the static that describes the method.
    fn described(&self) -> syn::Ident {
        hidden(&format!("METHOD_{}", self.name.unraw()))
    }

    fn expand_static(&self, interface: &str) -> TokenStream {
        let (described, text, conditions) = (self.described(), self.wire_name(), self.conditions());
        let exclusive = self.is_exclusive.then(|| quote!(.exclusive()));
        let repeatable = self.settings.is_repeatable.then(|| quote!(.repeatable()));
        quote! {
            #(#conditions)*
            static #described: ::mainstay::__private::Method =
                ::mainstay::__private::Method::new(#interface, #text) #exclusive #repeatable;
        }
    }

    /// The method as it is called by its name and with encoded arguments.
    fn expand_wired(&self, generics: &syn::Generics) -> TokenStream {
        let (method, record, output, described) = (&self.name, self.record(), &self.output, self.described());
        let (object, conditions, (_, arguments, _)) = (hidden("Object"), self.conditions(), generics.split_for_impl());
        quote! {
            #(#conditions)*
            ::mainstay::__private::WireMethod::new(&#described, |caller, call| {
                ::mainstay::__private::Caller::answer::<dyn #object #arguments, #output, #record #arguments>(
                    caller,
                    &#described,
                    call,
                    <dyn #object #arguments as #object #arguments>::#method,
                )
            })
        }
    }

    /// The method of the proxy.
    fn expand_call(&self, generics: &syn::Generics) -> TokenStream {
        let (reply, (_, generic_arguments, _)) = (self.reply(), generics.split_for_impl());
        let (method, record, output, described) = (&self.name, self.record(), &self.output, self.described());
        let (arguments, words, conditions) = (self.typed_arguments(), self.words(), self.conditions());
        let names: Vec<_> = self.arguments.iter().map(|argument| &argument.name).collect();
        let (object, marker) = (hidden("Object"), hidden("marker"));
        // The span of the output, because a type that cannot be returned is reported here.
        let call = quote_spanned! { output.span() =>
            ::mainstay::__private::Caller::call::<dyn #object #generic_arguments, #output, #record #generic_arguments>(
                &self.caller,
                &#described,
                arguments,
                <dyn #object #generic_arguments as #object #generic_arguments>::#method,
            )
            .await
        };
        quote! {
            #(#conditions)*
            #(#words)*
            pub async fn #method(&self #(, #arguments)*) -> #reply {
                let arguments = #record { #(#names,)* #marker: ::core::marker::PhantomData };
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
