use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The most bytes of a [`file_stem`]: with what is added to it, a name that every file system takes.
pub const FILE_STEM_BYTES_MAX: usize = 120;

/// How many bytes of a long key can still be read in its stem.
const READABLE_BYTES: usize = 80;

/// How many bytes of the hash of a long key are in its stem. Nobody can find two keys that agree in these.
const HASH_BYTES: usize = 16;

/// The first part of the names of the files of a key: safe on every file system, whatever the key is, and different for
/// different keys.
///
/// Lower case letters, digits, `_` and a `-` that is not the first stay as they are, every other byte becomes `%` and two
/// hexadecimal digits: so upper and lower case differ even where the file system does not see it, and neither a path, a
/// hidden file nor the name of a device can come out. A key that would be too long keeps its beginning, and gets `%~` and a
/// part of its SHA-256.
///
/// ```
/// use mainstay::governance::sink::csv::file_stem;
///
/// assert_eq!(file_stem("page_views"), "page_views");
/// assert_eq!(file_stem("../Ärger"), "%2e%2e%2f%c3%84rger");
/// ```
pub fn file_stem(key: &str) -> String {
    if key.is_empty() {
        return "%".to_owned();
    }
    let mut stem = String::new();
    for (index, byte) in key.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' => stem.push(char::from(byte)),
            b'-' if index > 0 => stem.push('-'),
            _ => push_escaped(&mut stem, byte),
        }
        if stem.len() > FILE_STEM_BYTES_MAX {
            return shortened(key, stem);
        }
    }
    stem
}

fn shortened(key: &str, mut stem: String) -> String {
    stem.truncate(READABLE_BYTES);
    // Not in the middle of an escape, which would look like another one.
    if let Some(escape) = stem.rfind('%').filter(|escape| stem.len() - escape < 3) {
        stem.truncate(escape);
    }
    stem.push_str("%~");
    for byte in &Sha256::digest(key)[..HASH_BYTES] {
        // Writing to a string does not fail.
        let _ = write!(stem, "{byte:02x}");
    }
    stem
}

fn push_escaped(stem: &mut String, byte: u8) {
    // Writing to a string does not fail.
    let _ = write!(stem, "%{byte:02x}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_safe(stem: &str) -> bool {
        !stem.is_empty()
            && stem.len() <= FILE_STEM_BYTES_MAX
            && !stem.starts_with('-')
            && stem.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'%' | b'~'))
    }

    #[test]
    fn paths_devices_and_cases_are_escaped() {
        for (key, stem) in [
            ("", "%"),
            ("clicks-2", "clicks-2"),
            ("-rf", "%2drf"),
            ("..", "%2e%2e"),
            ("/etc/passwd", "%2fetc%2fpasswd"),
            ("C:\\con", "%43%3a%5ccon"),
            ("a\0b", "a%00b"),
            ("100%", "100%25"),
            ("Click", "%43lick"),
        ] {
            assert_eq!(file_stem(key), stem);
        }
    }

    #[test]
    fn long_keys_differ_by_what_cannot_be_read_of_them() {
        let (one, two) = (format!("{}1", "x".repeat(2000)), format!("{}2", "x".repeat(2000)));
        assert!(is_safe(&file_stem(&one)) && file_stem(&one) != file_stem(&two));
        for pad in 0..4 {
            let key = format!("{}{}", "x".repeat(pad), "Ä".repeat(300));
            assert!(is_safe(&file_stem(&key)), "{}", file_stem(&key));
        }
        let longest = "x".repeat(FILE_STEM_BYTES_MAX);
        assert_eq!(file_stem(&longest), longest);
        assert_ne!(file_stem(&file_stem(&one)), file_stem(&one), "a name that looks shortened is another key's");
    }

    proptest! {
        #[test]
        fn any_two_keys_have_safe_and_different_stems(one in ".{0,200}", two in ".{0,200}") {
            prop_assert!(is_safe(&file_stem(&one)));
            prop_assert_eq!(file_stem(&one) == file_stem(&two), one == two);
        }

        #[test]
        fn keys_that_are_alike_have_different_stems(one in "[-aA%2d~.]{0,6}", two in "[-aA%2d~.]{0,6}") {
            prop_assert_eq!(file_stem(&one) == file_stem(&two), one == two);
        }
    }
}
