use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{LitStr, Type};

/// A field of a service.
pub(super) struct Field {
    name: Ident,
    ty: Type,
    kind: Kind,
}

/// What a field is filled with.
enum Kind {
    /// The collection of this name.
    Collection(String),
    StateManager,
    Context,
    Default,
}

impl Field {
    pub(super) fn read(field: &syn::Field) -> syn::Result<Self> {
        // The caller has seen to it that fields have names.
        let name = field.ident.clone().unwrap_or_else(|| Ident::new("unnamed", field.span()));
        let mut kind = kind_of(&field.ty, &name);
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("service")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    kind = Kind::Collection(meta.value()?.parse::<LitStr>()?.value());
                } else if meta.path.is_ident("collection") {
                    kind = Kind::Collection(name.unraw().to_string());
                } else if meta.path.is_ident("default") {
                    kind = Kind::Default;
                } else {
                    return Err(meta.error(
                        "a field of a service does not know this: use `name = \"..\"` or `collection` for a collection, or \
                         `default`",
                    ));
                }
                Ok(())
            })?;
        }
        Ok(Self { name, ty: field.ty.clone(), kind })
    }

    pub(super) fn expand(&self) -> TokenStream {
        let (name, ty) = (&self.name, &self.ty);
        let value = match &self.kind {
            Kind::Collection(stored) => quote_spanned! { ty.span() => opening.collection::<#ty>(#stored).await? },
            Kind::StateManager => quote_spanned! { ty.span() => opening.state_manager() },
            Kind::Context => quote_spanned! { ty.span() => opening.context() },
            Kind::Default => quote_spanned! { ty.span() => opening.plain::<#ty>() },
        };
        quote!(#name: #value)
    }
}

/// By the name of the type, which is all that a macro sees.
fn kind_of(ty: &Type, name: &Ident) -> Kind {
    let Type::Path(path) = ty else { return Kind::Default };
    match path.path.segments.last().map(|segment| segment.ident.to_string()).as_deref() {
        Some("Dictionary" | "Queue" | "ConcurrentQueue") => Kind::Collection(name.unraw().to_string()),
        Some("StateManager") => Kind::StateManager,
        Some("ServiceContext") => Kind::Context,
        _ => Kind::Default,
    }
}
