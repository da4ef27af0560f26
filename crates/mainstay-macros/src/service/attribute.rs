use proc_macro2::{Ident, Span};
use syn::punctuated::Punctuated;
use syn::{Attribute, LitStr, Path, Token, parenthesized};

use super::partitions::Partitions;

/// The longest name of a service. The runtime has the same limit for names that do not come from here.
const NAME_BYTES_MAX: usize = 256;

/// What `#[service(..)]` on a struct says.
pub(super) struct ServiceAttribute {
    pub(super) implements: Vec<Path>,
    pub(super) partitions: Partitions,
    /// The variant of the level.
    pub(super) level: Ident,
    pub(super) name: Option<String>,
    /// Where `run` is written.
    pub(super) run: Option<Span>,
}

impl ServiceAttribute {
    pub(super) fn read(attributes: &[Attribute]) -> syn::Result<Self> {
        let (mut implements, mut partitions, mut level, mut name, mut run) = (Vec::new(), None, None, None, None);
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("service")) {
            attribute.parse_nested_meta(|meta| {
                let again = |is_there: bool, what: &str| match is_there {
                    true => Err(meta.error(format!("`{what}` is given twice: leave one out"))),
                    false => Ok(()),
                };
                if meta.path.is_ident("implements") {
                    let paths;
                    parenthesized!(paths in meta.input);
                    let paths = Punctuated::<Path, Token![,]>::parse_terminated(&paths)?;
                    implements.extend(paths);
                    Ok(())
                } else if meta.path.is_ident("partitions") {
                    again(partitions.is_some(), "partitions")?;
                    partitions = Some(meta.value()?.parse()?);
                    Ok(())
                } else if meta.path.is_ident("persistence") {
                    again(level.is_some(), "persistence")?;
                    level = Some(variant(&meta.value()?.parse()?)?);
                    Ok(())
                } else if meta.path.is_ident("name") {
                    again(name.is_some(), "name")?;
                    name = Some(checked_name(&meta.value()?.parse()?)?);
                    Ok(())
                } else if meta.path.is_ident("run") {
                    again(run.is_some(), "run")?;
                    run = meta.path.get_ident().map(Ident::span);
                    Ok(())
                } else {
                    Err(meta.error(
                        "a service does not know this: use `implements(..)`, `partitions = ..`, `persistence = \"..\"`, \
                         `name = \"..\"` or `run`",
                    ))
                }
            })?;
        }
        Ok(Self {
            implements,
            partitions: partitions.unwrap_or_default(),
            level: level.unwrap_or_else(|| Ident::new("Persisted", Span::call_site())),
            name,
            run,
        })
    }
}

fn variant(text: &LitStr) -> syn::Result<Ident> {
    let name = match text.value().as_str() {
        "persisted" => "Persisted",
        "volatile" => "Volatile",
        "none" => "None",
        _ => return Err(syn::Error::new(text.span(), "use \"persisted\", \"volatile\" or \"none\"")),
    };
    Ok(Ident::new(name, text.span()))
}

fn checked_name(text: &LitStr) -> syn::Result<String> {
    let name = text.value();
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(syn::Error::new(text.span(), format!("a name has 1 to {NAME_BYTES_MAX} bytes")));
    }
    Ok(name)
}
