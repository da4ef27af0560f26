use proc_macro2::Ident;
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{Expr, LitStr, Pat, PatType, Token, Type};

use super::method::refuse_type;
use super::refuse::Refusals;
use super::wire_name;

/// One argument of a method.
pub(crate) struct Argument {
    pub(super) name: Ident,
    pub(super) ty: Type,
    /// The name on the wire: that of the argument unless `#[argument(name = "..")]` gives another.
    pub(super) wire: String,
    /// What it is if a caller does not send it.
    pub(super) default: Option<ArgumentDefault>,
}

/// The value of an argument that was not sent.
pub(super) enum ArgumentDefault {
    /// `Default::default()`.
    OfType,
    /// This.
    Value(Box<Expr>),
}

impl Argument {
    /// Reads an argument; `None` if there is a refusal.
    pub(super) fn read(argument: &PatType, refusals: &mut Refusals) -> Option<Self> {
        refuse_type(&argument.ty, refusals);
        let name = match &*argument.pat {
            Pat::Ident(name) if name.subpat.is_none() && name.by_ref.is_none() && name.mutability.is_none() => {
                name.ident.clone()
            }
            other => {
                refusals.add(other, "an argument of an interface method has a plain name: take it apart in the `impl`");
                return None;
            }
        };
        let mut read = Self { wire: name.unraw().to_string(), name, ty: (*argument.ty).clone(), default: None };
        for attribute in argument.attrs.iter().filter(|attribute| attribute.path().is_ident("argument")) {
            let parsed = attribute.parse_nested_meta(|meta| match &meta.path {
                path if path.is_ident("name") => {
                    let name: LitStr = meta.value()?.parse()?;
                    wire_name::check(&name)?;
                    read.wire = name.value();
                    Ok(())
                }
                path if path.is_ident("default") => {
                    read.default = Some(match meta.input.peek(Token![=]) {
                        true => ArgumentDefault::Value(Box::new(meta.value()?.parse()?)),
                        false => ArgumentDefault::OfType,
                    });
                    Ok(())
                }
                _ => Err(meta.error(
                    "an argument does not know this: use `name = \"..\"` for its name on the wire, `default` or `default = ..` \
                     for what it is when a caller does not send it, or remove it",
                )),
            });
            if let Err(error) = parsed {
                refusals.include(error);
            }
        }
        Some(read)
    }
}

/// Refuses two arguments that would be one on the wire.
pub(super) fn refuse_same(arguments: &[Argument], refusals: &mut Refusals) {
    for (at, argument) in arguments.iter().enumerate() {
        if arguments[..at].iter().any(|earlier| earlier.wire == argument.wire) {
            refusals.add(
                argument.name.to_token_stream(),
                format!("two arguments go by {:?} on the wire: give one another name", argument.wire),
            );
        }
    }
}
