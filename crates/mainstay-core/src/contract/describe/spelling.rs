//! How the name that an author gave to a type is written.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Words that have a meaning of their own in the name of a contract.
const WORDS: [&str; 25] = [
    "any", "array", "bool", "bytes", "char", "f32", "f64", "i128", "i16", "i32", "i64", "i8", "list", "map", "of",
    "option", "string", "struct", "to", "u128", "u16", "u32", "u64", "u8", "unit",
];

/// A name as it is, or in quotes where it could be taken for something else.
///
/// Only ASCII decides, because what Unicode calls a letter changes between versions of Rust, and names are stored.
pub(super) fn of(name: &str) -> Cow<'_, str> {
    let starts_as_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.:/".contains(letter);
    if starts_as_name && name.chars().all(is_plain) && !WORDS.contains(&name) {
        return Cow::Borrowed(name);
    }
    let mut quoted = String::from('"');
    for letter in name.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // Writing to a string does not fail.
            letter if letter.is_ascii_control() => _ = write!(quoted, "\\u{{{:x}}}", u32::from(letter)),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_could_be_misread_is_quoted() {
        for plain in ["User", "_x", "shop::User", "shop.v1/User-2", "Option", "tuple"] {
            assert_eq!(of(plain), plain);
        }
        for (name, quoted) in [
            ("", r#""""#),
            ("u8", r#""u8""#),
            ("list of u8", r#""list of u8""#),
            ("(a, b)", r#""(a, b)""#),
            ("7up", r#""7up""#),
            ("Größe", r#""Größe""#),
            ("a\"b\\c\n", r#""a\"b\\c\u{a}""#),
        ] {
            assert_eq!(of(name), quoted);
        }
    }
}
