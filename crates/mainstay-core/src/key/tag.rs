//! The first byte of an element, which says what it is. Their order is that of `None` and `Some`, of `false` and `true`
//! and of shorter and longer integers; the rest never meet in one place.

/// Ends a string, bytes or a list, and is less than whatever could go on there.
pub(super) const END: u8 = 0x00;
pub(super) const NONE: u8 = 0x01;
pub(super) const SOME: u8 = 0x02;
pub(super) const FALSE: u8 = 0x03;
pub(super) const TRUE: u8 = 0x04;
pub(super) const LETTER: u8 = 0x05;
pub(super) const TEXT: u8 = 0x06;
pub(super) const BYTES: u8 = 0x07;
pub(super) const LIST: u8 = 0x08;
pub(super) const VARIANT: u8 = 0x09;
/// The integer zero. `ZERO + n` has `n` bytes of a positive integer behind it, `ZERO - n` the complement of `n` bytes of
/// a negative one's distance from zero.
pub(super) const ZERO: u8 = 0x80;
/// The most bytes of an integer.
pub(super) const INTEGER_BYTES_MAX: u8 = 16;
/// Stands before the two bytes that have a meaning inside strings and bytes, [`END`] and itself, each of which follows it
/// one greater than it is: so nothing but the end of a string has a byte [`END`], no string is the beginning of
/// another, and the order stays.
pub(super) const ESCAPE: u8 = 0x01;

/// A tag in words.
pub(super) fn name(tag: u8) -> &'static str {
    const INTEGER_MIN: u8 = ZERO - INTEGER_BYTES_MAX;
    const INTEGER_MAX: u8 = ZERO + INTEGER_BYTES_MAX;
    match tag {
        END => "the end of a list",
        NONE | SOME => "an option",
        FALSE | TRUE => "a boolean",
        LETTER => "a character",
        TEXT => "a string",
        BYTES => "bytes",
        LIST => "a list",
        VARIANT => "an enum",
        INTEGER_MIN..=INTEGER_MAX => "an integer",
        _ => "no element of a key",
    }
}
