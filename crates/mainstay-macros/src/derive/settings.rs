use proc_macro2::Ident;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{Attribute, LitInt, LitStr, Path, Token, parenthesized};

/// The longest name that is stored. The runtime has the same limit for names that do not come from here.
const NAME_BYTES_MAX: usize = 256;

/// Reads every setting in `#[attribute(..)]`.
pub(crate) fn read(
    attributes: &[Attribute],
    attribute: &str,
    mut setting: impl FnMut(ParseNestedMeta<'_>) -> syn::Result<()>,
) -> syn::Result<()> {
    attributes
        .iter()
        .filter(|candidate| candidate.path().is_ident(attribute))
        .try_for_each(|candidate| candidate.parse_nested_meta(&mut setting))
}

/// Reads a setting that may be given once.
pub(crate) fn once<T>(
    slot: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    value: impl FnOnce(&ParseNestedMeta<'_>) -> syn::Result<T>,
) -> syn::Result<()> {
    if slot.is_some() {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        return Err(meta.error(format!("`{name}` is given twice: leave one out")));
    }
    *slot = Some(value(meta)?);
    Ok(())
}

/// The interfaces of `implements(..)`, which may be given several times.
pub(crate) fn implements(meta: &ParseNestedMeta<'_>) -> syn::Result<Punctuated<Path, Token![,]>> {
    let paths;
    parenthesized!(paths in meta.input);
    Punctuated::parse_terminated(&paths)
}

/// The variant of the level that `persistence = ".."` says.
pub(crate) fn level(meta: &ParseNestedMeta<'_>) -> syn::Result<Ident> {
    let text: LitStr = meta.value()?.parse()?;
    let name = match text.value().as_str() {
        "persisted" => "Persisted",
        "volatile" => "Volatile",
        "none" => "None",
        _ => return Err(syn::Error::new(text.span(), "use \"persisted\", \"volatile\" or \"none\"")),
    };
    Ok(Ident::new(name, text.span()))
}

/// A number of at least `least`; `remedy` says what to write.
pub(crate) fn number(meta: &ParseNestedMeta<'_>, least: u64, most: u64, remedy: &str) -> syn::Result<LitInt> {
    let value = meta.value()?;
    let at = value.span();
    let literal: LitInt = value.parse().map_err(|_| syn::Error::new(at, remedy))?;
    match literal.base10_parse::<u64>() {
        Ok(count) if (least..=most).contains(&count) && literal.suffix().is_empty() => Ok(literal),
        _ => Err(syn::Error::new(literal.span(), remedy)),
    }
}

/// The text of `name = ".."`.
pub(crate) fn checked_name(meta: &ParseNestedMeta<'_>) -> syn::Result<String> {
    let text: LitStr = meta.value()?.parse()?;
    let name = text.value();
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(syn::Error::new(text.span(), format!("a name has 1 to {NAME_BYTES_MAX} bytes")));
    }
    Ok(name)
}

/// The value of every reading, or all that is wrong, so that a user corrects it in one go.
pub(crate) fn all<T>(readings: impl Iterator<Item = syn::Result<T>>) -> syn::Result<Vec<T>> {
    let mut wrong: Option<syn::Error> = None;
    let mut values = Vec::new();
    for reading in readings {
        match (reading, &mut wrong) {
            (Ok(value), _) => values.push(value),
            (Err(error), None) => wrong = Some(error),
            (Err(error), Some(first)) => first.combine(error),
        }
    }
    wrong.map_or(Ok(values), Err)
}
