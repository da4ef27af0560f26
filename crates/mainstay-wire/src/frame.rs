//! The frame: what travels on a connection after the hello. `docs/internals/wire.md` has the bytes.

use bytes::{BufMut as _, BytesMut};
use mainstay_core::{Error, ErrorKind, Result};

use crate::class::{Class, Lane};
use crate::fields::Fields;
use crate::kind::Kind;

/// The oldest version of frames that this build speaks.
pub const PROTOCOL_MIN: u16 = 1;

/// The newest version of frames that this build speaks.
pub const PROTOCOL_MAX: u16 = 1;

/// The bytes before the payload.
pub const HEADER_BYTES: usize = 32;

/// The bytes before those that the length counts.
const LENGTH_BYTES: usize = 4;

/// What a header of a later version may grow to, within its one byte of length.
const HEADER_BYTES_MAX: usize = 255;

/// No deadline.
const NO_LIMIT: u32 = u32::MAX;

/// This frame is the first of its message.
const FIRST: u8 = 1;
/// This frame is the last of its message.
const LAST: u8 = 2;
/// The sender waits for an answer, also of a receiver that does not know the type of the frame.
const ANSWER_WANTED: u8 = 4;

/// What a frame is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameType {
    /// A message that wants an answer.
    Request,
    /// A message that wants none.
    Notice,
    /// The answer to a request.
    Answer,
    /// The error that a request has led to.
    Failure,
    /// The sender of a request does not wait for its answer any more.
    Cancel,
    /// More may be sent.
    Credit,
    /// Are you there?
    Ping,
    /// I am here.
    Pong,
    /// The sender of this sends no new message on this connection.
    Goodbye,
    /// A type of a later version.
    Unknown(u8),
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The version of the frame, which is the one that both ends have agreed on.
    pub version: u8,
    /// What the frame is a part of.
    pub frame_type: FrameType,
    /// Is it the first of its message?
    pub is_first: bool,
    /// Is it the last of its message?
    pub is_last: bool,
    /// Does the sender wait for an answer?
    pub wants_answer: bool,
    /// The class of the message.
    pub class: Class,
    /// What the message means.
    pub kind: Kind,
    /// Which message it is: the sender's number of a request or notice, and in an answer that of the request.
    pub id: u64,
    /// The length of the whole message.
    pub message_bytes: u32,
    /// How much time is left, where there is a limit.
    pub remaining_ms: Option<u32>,
}

/// A frame in a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<'b> {
    /// Its head.
    pub header: Header,
    /// Its part of the message.
    pub payload: &'b [u8],
    /// How many bytes of the buffer it takes.
    pub length: usize,
}

impl FrameType {
    fn code(self) -> u8 {
        match self {
            FrameType::Request => 1,
            FrameType::Notice => 2,
            FrameType::Answer => 3,
            FrameType::Failure => 4,
            FrameType::Cancel => 5,
            FrameType::Credit => 6,
            FrameType::Ping => 7,
            FrameType::Pong => 8,
            FrameType::Goodbye => 9,
            FrameType::Unknown(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            1 => FrameType::Request,
            2 => FrameType::Notice,
            3 => FrameType::Answer,
            4 => FrameType::Failure,
            5 => FrameType::Cancel,
            6 => FrameType::Credit,
            7 => FrameType::Ping,
            8 => FrameType::Pong,
            9 => FrameType::Goodbye,
            other => FrameType::Unknown(other),
        }
    }
}

impl Header {
    /// The head of a frame that is a message by itself, and belongs to no class but that of its connection.
    pub(crate) fn control(version: u8, frame_type: FrameType, lane: Lane, id: u64) -> Self {
        Self {
            version,
            frame_type,
            is_first: true,
            is_last: true,
            wants_answer: false,
            class: lane.reply_class(),
            kind: Kind::from_code(0),
            id,
            message_bytes: 0,
            remaining_ms: None,
        }
    }

    /// Writes a frame at the end of a buffer.
    pub fn encode(&self, payload: &[u8], out: &mut BytesMut) {
        let start = out.len();
        self.encode_head(payload, out);
        out.put_slice(payload);
        debug_assert_eq!(out.len(), start + HEADER_BYTES + payload.len());
    }

    /// Writes the head of a frame whose payload follows by other means.
    pub(crate) fn encode_head(&self, payload: &[u8], out: &mut BytesMut) {
        let mut head = [0; HEADER_BYTES];
        // A payload is a fragment, and those have 64 KiB at most.
        let length = (HEADER_BYTES - LENGTH_BYTES + payload.len()) as u32;
        head[0..4].copy_from_slice(&length.to_le_bytes());
        head[8] = self.version;
        head[9] = self.frame_type.code();
        head[10] = flag(self.is_first, FIRST) | flag(self.is_last, LAST) | flag(self.wants_answer, ANSWER_WANTED);
        head[11] = self.class.code();
        head[12..14].copy_from_slice(&self.kind.code().to_le_bytes());
        head[14] = HEADER_BYTES as u8;
        head[16..24].copy_from_slice(&self.id.to_le_bytes());
        head[24..28].copy_from_slice(&self.message_bytes.to_le_bytes());
        head[28..32].copy_from_slice(&self.remaining_ms.unwrap_or(NO_LIMIT).to_le_bytes());
        let checksum = crc32c::crc32c_append(checksum(&head[0..4], &head[8..]), payload);
        head[4..8].copy_from_slice(&checksum.to_le_bytes());
        out.put_slice(&head);
    }

    /// Reads the frame at the front of a buffer; `None` if the rest of it has not arrived.
    ///
    /// # Errors
    /// `Corrupt` if no frame of this connection starts so, which is told as soon as its length is known, and
    /// `UnknownVersion` if it is of a version that was not agreed on. Nothing that follows can be read then.
    pub fn decode(buffer: &[u8], lane: Lane, version: u8) -> Result<Option<Decoded<'_>>> {
        let Some((length, _)) = buffer.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        let length_max = HEADER_BYTES_MAX - LENGTH_BYTES + lane.fragment_bytes_max();
        if !(HEADER_BYTES - LENGTH_BYTES..=length_max).contains(&length) {
            return Err(Error::corrupt(format!(
                "a frame with a length of {length} cannot be on the {lane} connection, where it is at most {length_max}"
            )));
        }
        let Some(frame) = buffer.get(..LENGTH_BYTES + length) else { return Ok(None) };
        let mut fields = Fields::new("a frame", frame);
        let head = fields.take(4)?;
        let expected = fields.u32()?;
        let rest = &frame[8..];
        if checksum(head, rest) != expected {
            return Err(Error::corrupt("a frame is damaged: its checksum does not match"));
        }
        let found = fields.u8()?;
        if found != version {
            return Err(Error::new(
                ErrorKind::UnknownVersion,
                format!("a frame is of version {found}, and version {version} was agreed on"),
            ));
        }
        let frame_type = FrameType::from_code(fields.u8()?);
        let flags = fields.u8()?;
        let class = fields.u8()?;
        let class = Class::from_code(class).filter(|class| class.lane() == lane);
        let class =
            class.ok_or_else(|| Error::corrupt(format!("a frame has a class that the {lane} connection has not")))?;
        let kind = Kind::from_code(fields.u16()?);
        let header_bytes = usize::from(fields.u8()?);
        let _ = fields.u8()?;
        let (id, message_bytes, remaining_ms) = (fields.u64()?, fields.u32()?, fields.u32()?);
        // Fields that a later version has added are between those above and the payload.
        let payload = match header_bytes {
            HEADER_BYTES..=HEADER_BYTES_MAX => frame.get(header_bytes..),
            _ => None,
        };
        let payload = payload.ok_or_else(|| Error::corrupt("a frame has a header that is longer than itself"))?;
        if payload.len() > lane.fragment_bytes_max() {
            return Err(Error::corrupt(format!("a frame of the {lane} connection has {} bytes", payload.len())));
        }
        let header = Header {
            version: found,
            frame_type,
            is_first: flags & FIRST != 0,
            is_last: flags & LAST != 0,
            wants_answer: flags & ANSWER_WANTED != 0,
            class,
            kind,
            id,
            message_bytes,
            remaining_ms: (remaining_ms != NO_LIMIT).then_some(remaining_ms),
        };
        Ok(Some(Decoded { header, payload, length: frame.len() }))
    }
}

fn flag(is_set: bool, bit: u8) -> u8 {
    if is_set { bit } else { 0 }
}

/// Of the length, and of all that follows the checksum.
fn checksum(length: &[u8], rest: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(length), rest)
}

#[cfg(test)]
mod tests;
