//! Where in a value a byte stands, in words. Only used once something has gone wrong.

use super::fault::{Fault, shortened};
use super::limits::Limits;
use super::wire::{Head, Reader};

/// Fails unless the bytes are one MessagePack value and nothing more.
pub(super) fn check(bytes: &[u8], depth_max: u16) -> Result<(), Fault> {
    let mut reader = Reader::new(bytes, 0);
    reader.skip(depth_max)?;
    match reader.left() {
        0 => Ok(()),
        _ => Err(Fault::broken(reader.at, "more bytes follow the value")),
    }
}

/// The name of the innermost value that holds the byte at `at`: "field `orders[3].price`", or "the value" itself.
///
/// The bytes before `at` must be sound; where they are not, the name ends early.
pub(super) fn of(bytes: &[u8], at: usize) -> String {
    let mut path = String::new();
    let mut reader = Reader::new(bytes, 0);
    let mut in_key = false;
    while reader.at < at {
        match step(&mut reader, at, &mut path) {
            Some(Step::Value) => {}
            Some(Step::Key) => {
                in_key = true;
                break;
            }
            None => break,
        }
    }
    let path = path.strip_prefix('.').unwrap_or(&path);
    match (path.is_empty(), in_key) {
        (true, _) => "the value".to_owned(),
        (false, false) => format!("field `{path}`"),
        (false, true) => format!("key of `{path}`"),
    }
}

/// The most names of fields that a message repeats.
const FIELDS_SHOWN_MAX: usize = 16;

/// The names of the fields of the innermost struct or map that the byte at `at` belongs to, as they are stored: they say which
/// version of a type has written it. `None` if there is none.
pub(super) fn fields_around(bytes: &[u8], at: usize) -> Option<String> {
    let mut reader = Reader::new(bytes, 0);
    let mut innermost = None;
    loop {
        let here = reader.at;
        if matches!(Reader::new(bytes, here).head(), Ok(Head::Map(_))) {
            innermost = Some(here);
        }
        if here >= at || !matches!(step(&mut reader, at, &mut String::new()), Some(Step::Value)) {
            break;
        }
    }
    let mut reader = Reader::new(bytes, innermost?);
    let Ok(Head::Map(count)) = reader.head() else { return None };
    let mut names = String::new();
    for index in 0..count {
        if index == FIELDS_SHOWN_MAX {
            names.push_str(&format!(" and {} more", count - index));
            break;
        }
        let key = reader.at;
        reader.skip(Limits::DEPTH_CEILING).ok()?;
        let name = name(&bytes[key..reader.at]);
        names.push_str(&format!("{}`{}`", if index == 0 { "" } else { ", " }, name.strip_prefix('.').unwrap_or(&name)));
        reader.skip(Limits::DEPTH_CEILING).ok()?;
    }
    (count > 0).then(|| shortened(names))
}

enum Step {
    Key,
    Value,
}

/// Goes into the element of the value at `reader` that holds `at`, and adds its name to the path.
fn step(reader: &mut Reader<'_>, at: usize, path: &mut String) -> Option<Step> {
    match reader.head().ok()? {
        Head::Array(count) => {
            for index in 0..count {
                let start = reader.at;
                // The faulty element itself may end too early to be skipped.
                if reader.skip(Limits::DEPTH_CEILING).is_err() || at < reader.at {
                    path.push_str(&format!("[{index}]"));
                    reader.at = start;
                    return Some(Step::Value);
                }
            }
            None
        }
        Head::Map(count) => {
            for _ in 0..count {
                let key = reader.at;
                reader.skip(Limits::DEPTH_CEILING).ok()?;
                let value = reader.at;
                let whole = reader.skip(Limits::DEPTH_CEILING).is_ok();
                if whole && at >= reader.at {
                    continue;
                }
                path.push_str(&name(&reader.bytes[key..value]));
                reader.at = value;
                return Some(if at < value { Step::Key } else { Step::Value });
            }
            None
        }
        _ => None,
    }
}

/// A key as a part of a path: `.name`, or `[5]` where it is no plain name.
fn name(key: &[u8]) -> String {
    match Reader::new(key, 0).head() {
        Ok(Head::Text(text)) => match std::str::from_utf8(text) {
            Ok(text) if is_plain(text) => format!(".{}", shortened(text)),
            Ok(text) => format!("[{}]", shortened(format_args!("{text:?}"))),
            Err(_) => "[?]".to_owned(),
        },
        Ok(Head::Unsigned(number)) => format!("[{number}]"),
        Ok(Head::Signed(number)) => format!("[{number}]"),
        Ok(Head::Bool(value)) => format!("[{value}]"),
        Ok(Head::Binary(bytes)) => format!("[{}]", shortened(format_args!("{bytes:02x?}"))),
        _ => "[?]".to_owned(),
    }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '-')
}
