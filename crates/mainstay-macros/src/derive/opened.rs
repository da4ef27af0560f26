//! `#[open(..)]` on a field: the expression that opens it when its object is made.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::{Expr, Meta};

use super::{Field, Kind, place};

/// What to write.
const FORM: &str = "give the expression that opens the field, for example `#[open(Resolver::open(&ctx, \"users\", \
                    settings()).await)]`";

/// Types that are filled by the macro, and so not by an expression.
const FILLED: &[&str] = &[
    "State",
    "Paged",
    "Context",
    "Provided",
    "Dictionary",
    "Queue",
    "ConcurrentQueue",
    "StateManager",
    "ServiceContext",
    "WorkerContext",
];

/// The expression that a field is opened by, if it is. Nothing else can be said of such a field.
pub(crate) fn opened(field: &Field<'_>, kind: &Kind) -> syn::Result<Option<Expr>> {
    let mut attributes = field.attributes.iter().filter(|attribute| attribute.path().is_ident("open"));
    let Some(attribute) = attributes.next() else { return Ok(None) };
    if let Some(second) = attributes.next() {
        return Err(syn::Error::new_spanned(second, "a field is opened once: leave one `#[open(..)]` out"));
    }
    let expression = match &attribute.meta {
        Meta::List(list) if !list.tokens.is_empty() => list.parse_args::<Expr>()?,
        other => return Err(syn::Error::new_spanned(other, FORM)),
    };
    if let Some(other) = field.attributes.iter().find(|attribute| attribute.path().is_ident(kind.word)) {
        let text = format!("a field that is opened by `#[open(..)]` has no `#[{}(..)]`: leave one out", kind.word);
        return Err(syn::Error::new_spanned(other, text));
    }
    if let Some(filled) = field.type_name().filter(|name| FILLED.contains(&name.as_str())) {
        let text = format!(
            "a `{filled}` is not opened by an expression: remove `#[open(..)]`, or give a type of your own another name"
        );
        return Err(syn::Error::new_spanned(attribute, text));
    }
    if field.name == "ctx" {
        let text = "`ctx` is what `#[open(..)]` reaches others by: give the field another name";
        return Err(syn::Error::new(field.name.span(), text));
    }
    Ok(Some(expression))
}

/// The fields of a struct that are opened, in their order.
pub(crate) struct OpenedFields<'f>(Vec<(&'f Field<'f>, &'f Expr)>);

impl<'f> OpenedFields<'f> {
    pub(crate) fn new(fields: impl Iterator<Item = (&'f Field<'f>, &'f Expr)>) -> Self {
        Self(fields.collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Opens all of them within an async function that fails with an error, as one value. The names of those before are
    /// known to those after. `context` is what `ctx` is in the expressions.
    fn expand_values(&self, context: &TokenStream) -> TokenStream {
        let ctx = Ident::new("ctx", Span::call_site());
        let opened = self.0.iter().map(|(Field { name, ty, .. }, expression)| {
            let text = name.unraw().to_string();
            let value = quote_spanned! { place(expression) =>
                ::mainstay::__private::open_field::<#ty, _>(#text, async { #expression }).await?
            };
            quote! { let #name = #value; }
        });
        let names = self.0.iter().map(|(field, _)| &field.name);
        quote! {{
            let #ctx = #context;
            let _ = &#ctx;
            #(#opened)*
            (#(#names,)*)
        }}
    }

    /// Opens them before an object is made: each is then in the variable of [`local`].
    pub(crate) fn expand_let(&self, context: &TokenStream) -> TokenStream {
        let (pattern, values) = (self.expand_pattern(), self.expand_values(context));
        quote! { let #pattern = #values; }
    }

    fn expand_pattern(&self) -> TokenStream {
        let names = self.0.iter().map(|(field, _)| local(field));
        quote!((#(#names,)*))
    }
}

/// The name of a variable with the value of a field: one that is in nobody's way.
pub(crate) fn local(field: &Field<'_>) -> Ident {
    format_ident!("__opened_{}", field.name.unraw())
}
