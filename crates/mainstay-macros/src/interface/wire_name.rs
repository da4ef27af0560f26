use syn::LitStr;

/// The longest name of an interface, a method or an argument on the wire, as the envelope of a call holds it.
const BYTES_MAX: usize = 255;

/// Refuses a name that cannot be one on the wire.
pub(super) fn check(name: &LitStr) -> syn::Result<()> {
    let text = name.value();
    let is_allowed = |character: char| character.is_alphanumeric() || "_-.:".contains(character);
    if text.is_empty() || text.len() > BYTES_MAX || !text.chars().all(is_allowed) {
        return Err(syn::Error::new_spanned(
            name,
            format!("a name has 1 to {BYTES_MAX} bytes, of letters, digits and `_`, `-`, `.`, `:`: choose another one"),
        ));
    }
    Ok(())
}
