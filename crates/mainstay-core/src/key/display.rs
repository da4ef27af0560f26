use std::fmt::{self, Write};

use uuid::Uuid;

use super::decode::Decoder;
use super::fault::Fault;
use super::tag;

/// The most characters of a key that are shown; `…` stands for the rest.
const SHOWN_CHARS_MAX: usize = 120;

/// An encoded key, or the beginning of one, as text for messages: `"apple"`, `("eu", 7)`.
///
/// The bytes tell all but the types. Structs and tuples inside others are their elements in a row (empty ones leave no
/// trace), a variant is `#1`, by its number, with its content behind it, and `Some` is shown around the one element that
/// follows it. Sixteen bytes are shown as a uuid. What is no key is shown in hexadecimal, and nothing at great length.
///
/// ```
/// use mainstay_core::key;
///
/// let bytes = key::encode(&("eu", 7, Some('x')))?;
/// assert_eq!(key::display(&bytes).to_string(), r#"("eu", 7, Some('x'))"#);
/// # Ok::<(), mainstay_core::Error>(())
/// ```
pub fn display(bytes: &[u8]) -> KeyDisplay<'_> {
    KeyDisplay(bytes)
}

/// See [`display`].
#[derive(Debug, Clone, Copy)]
pub struct KeyDisplay<'a>(&'a [u8]);

impl fmt::Display for KeyDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = Shown::default();
        match shown.elements(&mut Decoder::new(self.0)) {
            Ok(()) if shown.elements == 1 => f.write_str(&shown.text),
            Ok(()) => write!(f, "({})", shown.text),
            Err(End::Full) if shown.elements == 1 => write!(f, "{}…", shown.text),
            Err(End::Full) => write!(f, "({}…", shown.text),
            Err(End::NoKey) => {
                let mut shown = Shown::default();
                let end = if shown.hexadecimal(self.0).is_ok() { "" } else { "…" };
                write!(f, "{}{end}", shown.text)
            }
        }
    }
}

/// Why a key is not shown to its end.
enum End {
    Full,
    NoKey,
}

impl From<fmt::Error> for End {
    fn from(_: fmt::Error) -> Self {
        End::Full
    }
}

impl From<Fault> for End {
    fn from(_: Fault) -> Self {
        End::NoKey
    }
}

/// The text so far, which refuses more than there is room for.
#[derive(Default)]
struct Shown {
    text: String,
    chars: usize,
    /// How many elements were begun.
    elements: usize,
}

impl Write for Shown {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for letter in part.chars() {
            if self.chars == SHOWN_CHARS_MAX {
                return Err(fmt::Error);
            }
            self.chars += 1;
            self.text.push(letter);
        }
        Ok(())
    }
}

impl Shown {
    /// Shows all elements up to the end of the bytes.
    fn elements(&mut self, decoder: &mut Decoder<'_>) -> Result<(), End> {
        while decoder.peek().is_some() {
            self.elements += 1;
            if self.elements > 1 {
                self.write_str(", ")?;
            }
            self.element(decoder)?;
        }
        Ok(())
    }

    fn element(&mut self, decoder: &mut Decoder<'_>) -> Result<(), End> {
        let Some(next) = decoder.peek() else { return Err(End::NoKey) };
        if next.abs_diff(tag::ZERO) <= tag::INTEGER_BYTES_MAX {
            let (is_negative, distance) = decoder.integer(&"an integer")?;
            return Ok(write!(self, "{}{distance}", if is_negative { "-" } else { "" })?);
        }
        match decoder.tag(&"an element")? {
            tag::NONE => self.write_str("None")?,
            tag::SOME => {
                self.write_str("Some(")?;
                // Nothing follows, or the end of the list that this is in: what is inside is an empty tuple.
                if decoder.peek().is_some_and(|next| next != tag::END) {
                    self.inside(decoder, Self::element)?;
                }
                self.write_str(")")?;
            }
            tag::FALSE => self.write_str("false")?,
            tag::TRUE => self.write_str("true")?,
            tag::LETTER => write!(self, "{:?}", decoder.letter()?)?,
            tag::TEXT => match std::str::from_utf8(&decoder.escaped()?) {
                Ok(text) => write!(self, "{text:?}")?,
                Err(_) => return Err(End::NoKey),
            },
            tag::BYTES => {
                let bytes = decoder.escaped()?;
                match Uuid::from_slice(&bytes) {
                    Ok(uuid) => write!(self, "{uuid}")?,
                    Err(_) => self.hexadecimal(&bytes)?,
                }
            }
            tag::LIST => self.inside(decoder, Self::list)?,
            tag::VARIANT => {
                let (is_negative, index) = decoder.integer(&"the number of a variant")?;
                if is_negative {
                    return Err(End::NoKey);
                }
                write!(self, "#{index}")?;
            }
            _ => return Err(End::NoKey),
        }
        Ok(())
    }

    fn list(&mut self, decoder: &mut Decoder<'_>) -> Result<(), End> {
        self.write_str("[")?;
        let mut separator = "";
        while decoder.peek() != Some(tag::END) {
            self.write_str(separator)?;
            self.element(decoder)?;
            separator = ", ";
        }
        decoder.tag(&"the end of a list")?;
        Ok(self.write_str("]")?)
    }

    fn inside(
        &mut self,
        decoder: &mut Decoder<'_>,
        show: impl FnOnce(&mut Self, &mut Decoder<'_>) -> Result<(), End>,
    ) -> Result<(), End> {
        let mut result = Ok(());
        decoder.deeper(|decoder| {
            result = show(self, decoder);
            Ok(())
        })?;
        result
    }

    fn hexadecimal(&mut self, bytes: &[u8]) -> fmt::Result {
        self.write_str("0x")?;
        bytes.iter().try_for_each(|byte| write!(self, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde::Serialize;

    use super::*;
    use crate::key::encode;

    fn shown<K: Serialize + ?Sized>(key: &K) -> String {
        display(&encode(key).unwrap()).to_string()
    }

    #[derive(Serialize)]
    enum Kind {
        Unit,
        Content(u8, bool),
    }

    #[test]
    fn keys_are_shown_as_a_person_would_write_them() {
        assert_eq!(shown("apple"), r#""apple""#);
        assert_eq!(shown("a\0\u{1}\"b"), r#""a\0\u{1}\"b""#);
        assert_eq!(shown(&("eu", 7)), r#"("eu", 7)"#);
        assert_eq!(shown(&(0, -1, u128::MAX, i128::MIN)), format!("(0, -1, {}, {})", u128::MAX, i128::MIN));
        assert_eq!(shown(&(true, false, 'ä', None::<u8>)), "(true, false, 'ä', None)");
        assert_eq!(shown(&Some(Some(5))), "Some(Some(5))");
        assert_eq!(
            shown(&(vec![Some(()), None], Some(()))),
            "([Some(None)], Some())",
            "an empty tuple leaves no trace"
        );
        assert_eq!(shown(&vec![Some(())]), "[Some()]");
        assert_eq!(shown(&(vec![vec![1, 2], vec![]], 3)), "([[1, 2], []], 3)");
        assert_eq!(shown(&(Kind::Unit, Kind::Content(5, true))), "(#0, #1, 5, true)");
        assert_eq!(shown(&Bytes::from_static(&[0, 1, 0xff])), "0x0001ff");
        assert_eq!(shown(&Uuid::from_u128(7)), "00000000-0000-0000-0000-000000000007");
        assert_eq!(shown(&()), "()");
    }

    #[test]
    fn what_is_no_key_is_shown_in_hexadecimal_and_nothing_at_length() {
        for (bytes, text) in [
            (&[0x06, b'a'][..], "0x0661"),
            (&[0x06, 0xc3, 0], "0x06c300"),
            (&[0x81], "0x81"),
            (&[0x80, 0x00], "0x8000"),
            (&[0x08, 0x80], "0x0880"),
            (&[0x09], "0x09"),
            (&[0x09, 0x7f, 0xfe], "0x097ffe"),
            (&[0x05, 0, 0xd8, 0], "0x0500d800"),
            (&[0xff], "0xff"),
        ] {
            assert_eq!(display(bytes).to_string(), text);
        }
        let deep = [0x02; 4000];
        assert_eq!(display(&deep).to_string(), format!("{}…", "Some(".repeat(24)), "full before it is too deep");
        let deep = [0x08; 40];
        assert_eq!(display(&deep).to_string(), format!("0x{}", "08".repeat(40)));

        assert_eq!(shown(&"x".repeat(1000)), format!("\"{}…", "x".repeat(119)));
        assert_eq!(
            shown(&("é".repeat(100), "é".repeat(100))),
            format!("(\"{}\", \"{}…", "é".repeat(100), "é".repeat(15))
        );
        assert_eq!(display(&[0xff; 5000]).to_string(), format!("0x{}…", "ff".repeat(59)));
        assert_eq!(shown(&"x".repeat(118)), format!("\"{}\"", "x".repeat(118)), "as much as there is room for");
    }

    proptest! {
        #[test]
        fn any_bytes_are_shown_and_none_at_length(bytes in prop::collection::vec(prop_oneof![0..10u8, 0x70..0x91u8, any::<u8>()], 0..300)) {
            let shown = display(&bytes).to_string();
            prop_assert!(!shown.is_empty());
            prop_assert!(shown.chars().count() <= SHOWN_CHARS_MAX + 2);
        }

        #[test]
        fn a_tuple_is_shown_as_its_debug_form_is(key in any::<(String, i64, Option<u8>, bool, Vec<u16>, char)>()) {
            let expected = format!("{key:?}");
            let shown = shown(&key);
            match shown.strip_suffix('…') {
                Some(start) => prop_assert!(expected.starts_with(start), "{expected} {start}"),
                None => prop_assert_eq!(shown, expected),
            }
        }
    }
}
