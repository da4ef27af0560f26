use proc_macro2::Ident;
use syn::spanned::Spanned as _;
use syn::{Attribute, Data, DeriveInput, Fields, Type, TypeGroup, TypeParen};

use super::Kind;

/// A field as it is written.
pub(crate) struct Field<'i> {
    pub(crate) name: Ident,
    pub(crate) ty: &'i Type,
    pub(crate) attributes: &'i [Attribute],
}

impl<'i> Field<'i> {
    fn read(field: &'i syn::Field) -> Self {
        // Fields without a name are refused before this.
        let name = field.ident.clone().unwrap_or_else(|| Ident::new("unnamed", field.span()));
        Self { name, ty: &field.ty, attributes: &field.attrs }
    }

    /// The name of the type without its path and its parameters, which is all that a macro knows of a type.
    pub(crate) fn type_name(&self) -> Option<String> {
        self.last_segment().map(|segment| segment.ident.to_string())
    }

    /// The same, if the type has parameters. An application may well have a `State` of its own, and seldom one of something.
    pub(crate) fn generic_type_name(&self) -> Option<String> {
        self.last_segment().filter(|segment| !segment.arguments.is_none()).map(|segment| segment.ident.to_string())
    }

    fn last_segment(&self) -> Option<&syn::PathSegment> {
        let mut ty = self.ty;
        // A type that a macro of the user has put in comes in a group of its own.
        while let Type::Group(TypeGroup { elem, .. }) | Type::Paren(TypeParen { elem, .. }) = ty {
            ty = elem;
        }
        match ty {
            Type::Path(path) => path.path.segments.last(),
            _ => None,
        }
    }
}

/// The fields of a struct that is not generic and has names for all of them.
pub(crate) fn fields_of_one_type<'i>(item: &'i DeriveInput, kind: &Kind) -> syn::Result<Vec<Field<'i>>> {
    if !item.generics.params.is_empty() || item.generics.where_clause.is_some() {
        let Kind { noun, word, .. } = kind;
        return Err(syn::Error::new_spanned(
            &item.generics,
            format!(
                "{noun} cannot be generic, because its name stands for one type: name the types, or write one {word} for each"
            ),
        ));
    }
    fields(item, kind)
}

/// The fields of a struct that has names for all of them.
pub(crate) fn fields<'i>(item: &'i DeriveInput, kind: &Kind) -> syn::Result<Vec<Field<'i>>> {
    let Kind { noun, why_names, .. } = kind;
    let refusal = format!("{noun} is a struct with named fields: {why_names}");
    match &item.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(named) => Ok(named.named.iter().map(Field::read).collect()),
            Fields::Unit => Ok(Vec::new()),
            Fields::Unnamed(unnamed) => Err(syn::Error::new_spanned(unnamed, refusal)),
        },
        Data::Enum(data) => Err(syn::Error::new_spanned(data.enum_token, refusal)),
        Data::Union(data) => Err(syn::Error::new_spanned(data.union_token, refusal)),
    }
}
