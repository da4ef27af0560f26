//! MessagePack as bytes: reading one head at a time, skipping a value, writing a head.

use super::fault::Fault;

/// The byte of MessagePack's nil.
pub(super) const NIL: u8 = 0xc0;

/// What stands at a place in the bytes: a whole scalar, or the head of an array or a map whose elements follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Head<'a> {
    Nil,
    Bool(bool),
    /// A number that is not negative.
    Unsigned(u64),
    /// A number that fits no unsigned form: always negative in what this crate writes.
    Signed(i64),
    F32(f32),
    F64(f64),
    /// The bytes of a string, which are checked to be UTF-8 by whoever needs the text.
    Text(&'a [u8]),
    Binary(&'a [u8]),
    /// The number of elements.
    Array(usize),
    /// The number of entries: a key and a value each.
    Map(usize),
    Extension(i8, &'a [u8]),
}

/// A place in MessagePack bytes that moves forward.
///
/// No length is believed before the bytes that it promises are seen to be there: every element takes at least one
/// byte, so an array that claims more elements than there are bytes left is refused at its head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The bytes of the string that stands here, if it is one of less than 32 bytes.
    #[inline]
    pub(super) fn short_text(&mut self) -> Option<&'a [u8]> {
        let (marker, rest) = self.bytes.get(self.at..)?.split_first()?;
        if marker & 0xe0 != 0xa0 {
            return None;
        }
        let text = rest.get(..usize::from(marker & 0x1f))?;
        self.at += 1 + text.len();
        Some(text)
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..len)) {
            Some(taken) => {
                self.at += len;
                Ok(taken)
            }
            None => Err(Fault::broken(self.at, "the bytes end inside a value")),
        }
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<N>) {
            Some(taken) => {
                self.at += N;
                Ok(*taken)
            }
            None => Err(Fault::broken(self.at, "the bytes end inside a value")),
        }
    }

    #[inline]
    fn length<const N: usize>(&mut self) -> Result<usize, Fault> {
        let taken = self.fixed::<N>()?;
        Ok(taken.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    /// Reads the scalar or the head that stands here.
    #[inline]
    pub(super) fn head(&mut self) -> Result<Head<'a>, Fault> {
        let [marker] = self.fixed()?;
        Ok(match marker {
            0x00..=0x7f => Head::Unsigned(u64::from(marker)),
            0x80..=0x8f => return self.map(usize::from(marker & 0x0f)),
            0x90..=0x9f => return self.array(usize::from(marker & 0x0f)),
            0xa0..=0xbf => Head::Text(self.take(usize::from(marker & 0x1f))?),
            NIL => Head::Nil,
            0xc1 => return Err(Fault::broken(self.at - 1, "the byte 0xc1 has no meaning")),
            0xc2 => Head::Bool(false),
            0xc3 => Head::Bool(true),
            0xc4 => Head::Binary(self.sized::<1>()?),
            0xc5 => Head::Binary(self.sized::<2>()?),
            0xc6 => Head::Binary(self.sized::<4>()?),
            0xc7 => return self.extension::<1>(),
            0xc8 => return self.extension::<2>(),
            0xc9 => return self.extension::<4>(),
            0xca => Head::F32(f32::from_be_bytes(self.fixed()?)),
            0xcb => Head::F64(f64::from_be_bytes(self.fixed()?)),
            0xcc => Head::Unsigned(u64::from(u8::from_be_bytes(self.fixed()?))),
            0xcd => Head::Unsigned(u64::from(u16::from_be_bytes(self.fixed()?))),
            0xce => Head::Unsigned(u64::from(u32::from_be_bytes(self.fixed()?))),
            0xcf => Head::Unsigned(u64::from_be_bytes(self.fixed()?)),
            0xd0 => signed(i64::from(i8::from_be_bytes(self.fixed()?))),
            0xd1 => signed(i64::from(i16::from_be_bytes(self.fixed()?))),
            0xd2 => signed(i64::from(i32::from_be_bytes(self.fixed()?))),
            0xd3 => signed(i64::from_be_bytes(self.fixed()?)),
            0xd4..=0xd8 => return self.extension_of(1 << (marker - 0xd4)),
            0xd9 => Head::Text(self.sized::<1>()?),
            0xda => Head::Text(self.sized::<2>()?),
            0xdb => Head::Text(self.sized::<4>()?),
            0xdc => {
                let count = self.length::<2>()?;
                return self.array(count);
            }
            0xdd => {
                let count = self.length::<4>()?;
                return self.array(count);
            }
            0xde => {
                let count = self.length::<2>()?;
                return self.map(count);
            }
            0xdf => {
                let count = self.length::<4>()?;
                return self.map(count);
            }
            0xe0..=0xff => Head::Signed(i64::from(marker.cast_signed())),
        })
    }

    #[inline]
    fn sized<const N: usize>(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.length::<N>()?;
        self.take(length)
    }

    fn extension<const N: usize>(&mut self) -> Result<Head<'a>, Fault> {
        let length = self.length::<N>()?;
        self.extension_of(length)
    }

    fn extension_of(&mut self, length: usize) -> Result<Head<'a>, Fault> {
        let [kind] = self.fixed()?;
        Ok(Head::Extension(kind.cast_signed(), self.take(length)?))
    }

    fn array(&self, count: usize) -> Result<Head<'a>, Fault> {
        if count > self.left() {
            return Err(Fault::broken(self.at, "an array claims more elements than there are bytes"));
        }
        Ok(Head::Array(count))
    }

    fn map(&self, count: usize) -> Result<Head<'a>, Fault> {
        if count > self.left() / 2 {
            return Err(Fault::broken(self.at, "a map claims more entries than there are bytes"));
        }
        Ok(Head::Map(count))
    }

    /// Moves over one whole value, checking that it is MessagePack and no deeper than `depth_left`.
    pub(super) fn skip(&mut self, depth_left: u16) -> Result<(), Fault> {
        let start = self.at;
        let values = match self.head()? {
            Head::Array(count) => count,
            Head::Map(count) => count * 2,
            Head::Text(text) => {
                return match std::str::from_utf8(text) {
                    Ok(_) => Ok(()),
                    Err(_) => Err(Fault::broken(start, "a string is not UTF-8")),
                };
            }
            _ => return Ok(()),
        };
        let depth_left = depth_left.checked_sub(1).ok_or_else(|| Fault::too_deep(start))?;
        for _ in 0..values {
            self.skip(depth_left)?;
        }
        Ok(())
    }
}

#[inline]
fn signed(number: i64) -> Head<'static> {
    match u64::try_from(number) {
        Ok(number) => Head::Unsigned(number),
        Err(_) => Head::Signed(number),
    }
}

#[inline]
pub(super) fn write_unsigned(out: &mut Vec<u8>, number: u64) {
    if number < 0x80 {
        out.push(number as u8);
    } else if let Ok(number) = u8::try_from(number) {
        out.extend_from_slice(&[0xcc, number]);
    } else if let Ok(number) = u16::try_from(number) {
        write_marked(out, 0xcd, number.to_be_bytes());
    } else if let Ok(number) = u32::try_from(number) {
        write_marked(out, 0xce, number.to_be_bytes());
    } else {
        write_marked(out, 0xcf, number.to_be_bytes());
    }
}

#[inline]
pub(super) fn write_signed(out: &mut Vec<u8>, number: i64) {
    if let Ok(number) = u64::try_from(number) {
        write_unsigned(out, number);
    } else if number >= -32 {
        out.push(number as u8);
    } else if let Ok(number) = i8::try_from(number) {
        write_marked(out, 0xd0, number.to_be_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        write_marked(out, 0xd1, number.to_be_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        write_marked(out, 0xd2, number.to_be_bytes());
    } else {
        write_marked(out, 0xd3, number.to_be_bytes());
    }
}

/// Writes an integer of 128 bits that fits no shorter form: 16 bytes, and one before them that says the sign where their
/// first bit would leave it open.
pub(super) fn write_wide(out: &mut Vec<u8>, is_negative: bool, bytes: [u8; 16]) {
    let sign = if is_negative { u8::MAX } else { 0 };
    match bytes[0] < 0x80 {
        true => write_binary(out, &bytes),
        false => {
            out.extend_from_slice(&[0xc4, 17, sign]);
            out.extend_from_slice(&bytes);
        }
    }
}

#[inline]
pub(super) fn write_marked<const N: usize>(out: &mut Vec<u8>, marker: u8, bytes: [u8; N]) {
    // Both at once, so that there is one look whether the buffer has room. No number has more than eight bytes.
    let mut marked = [marker; 9];
    marked[1..=N].copy_from_slice(&bytes);
    out.extend_from_slice(&marked[..=N]);
}

// Names of fields are constants: inlined, their heads are constants as well.
#[inline(always)]
pub(super) fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        length @ 0..32 => out.push(0xa0 | length as u8),
        length @ 32..0x100 => out.extend_from_slice(&[0xd9, length as u8]),
        length @ 0x100..0x1_0000 => write_marked(out, 0xda, (length as u16).to_be_bytes()),
        length => write_marked(out, 0xdb, (length as u32).to_be_bytes()),
    }
    out.extend_from_slice(text);
}

pub(super) fn write_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        length @ 0..0x100 => out.extend_from_slice(&[0xc4, length as u8]),
        length @ 0x100..0x1_0000 => write_marked(out, 0xc5, (length as u16).to_be_bytes()),
        length => write_marked(out, 0xc6, (length as u32).to_be_bytes()),
    }
    out.extend_from_slice(bytes);
}

/// The head of an array or a map, in the shortest form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    bytes: [u8; 5],
    length: usize,
}

impl Opening {
    #[inline]
    pub(super) fn array(count: usize) -> Self {
        Self::of(count, 0x90, 0xdc)
    }

    #[inline]
    pub(super) fn map(count: usize) -> Self {
        Self::of(count, 0x80, 0xde)
    }

    #[inline]
    fn of(count: usize, short: u8, long: u8) -> Self {
        // What is encoded is smaller than 4 GiB (see `Limits`), so a count, of one byte or more each, fits 32 bits.
        let [a, b, c, d] = (count as u32).to_be_bytes();
        match count {
            0..16 => Self { bytes: [short | d, 0, 0, 0, 0], length: 1 },
            16..0x1_0000 => Self { bytes: [long, c, d, 0, 0], length: 3 },
            _ => Self { bytes: [long + 1, a, b, c, d], length: 5 },
        }
    }

    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self.length {
            1 => out.push(self.bytes[0]),
            _ => out.extend_from_slice(self.as_slice()),
        }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
