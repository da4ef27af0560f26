//! Putting fragments together to messages, of a peer that may be no friend.

use bytes::{Bytes, BytesMut};
use mainstay_core::{Error, Result};

use crate::class::Class;
use crate::frame::{FrameType, Header};
use crate::window::Window;

/// What is set aside for a message when its first fragment comes; the rest follows as it arrives, not as it is promised.
const FIRST_BYTES: usize = 64 << 10;

/// The messages that have not arrived as a whole, and how much the peer may still send.
#[derive(Debug)]
pub(crate) struct Assembly {
    parts: Vec<Part>,
    granted: [Window; Class::COUNT],
    /// What has arrived, in whole or in part, and was not given back to the sender.
    in_use: [Window; Class::COUNT],
}

/// What is to become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It is handed on.
    Whole,
    /// It is counted, and its bytes are thrown away: nobody waits for it, or its sender may not send it.
    Nothing,
}

/// A message that has arrived as a whole.
#[derive(Debug)]
pub(crate) struct Assembled {
    /// Of its last frame; with the deadline of the first.
    pub(crate) header: Header,
    pub(crate) body: Bytes,
    pub(crate) keep: Keep,
}

#[derive(Debug)]
struct Part {
    header: Header,
    body: BytesMut,
    arrived: usize,
    keep: Keep,
}

impl Assembly {
    pub(crate) fn new(granted: [Window; Class::COUNT]) -> Self {
        Self { parts: Vec::new(), granted, in_use: Default::default() }
    }

    /// Takes in a frame, and returns the message that it completes. `keep` is asked when a message begins.
    ///
    /// # Errors
    /// `Corrupt` if the peer does not keep to the protocol; nothing that it sends can be understood from there on.
    pub(crate) fn add(
        &mut self,
        header: Header,
        payload: &[u8],
        keep: impl FnOnce() -> Keep,
    ) -> Result<Option<Assembled>> {
        let place = self.parts.iter().position(|part| part.is_of(&header));
        match (header.is_first, place) {
            (true, None) => self.begin(header, payload, keep),
            (false, Some(place)) => self.go_on(place, header, payload),
            (true, Some(_)) => Err(violation(&header, "begins a message a second time")),
            (false, None) => Err(violation(&header, "goes on with a message that has not begun")),
        }
    }

    fn begin(&mut self, header: Header, payload: &[u8], keep: impl FnOnce() -> Keep) -> Result<Option<Assembled>> {
        let total = header.message_bytes as usize;
        let class = queue(&header);
        if total > header.class.message_bytes_max() {
            return Err(violation(
                &header,
                &format!("begins a message of {total} bytes, which is too large for the class {}", header.class),
            ));
        }
        if class != Class::Reply {
            let (granted, in_use) = (self.granted[class.index()], &mut self.in_use[class.index()]);
            if !granted.has_room(*in_use, total as u64) {
                return Err(violation(&header, &format!("is more of the class {class} than was granted")));
            }
            in_use.add(total as u64);
        }
        if header.is_last {
            if payload.len() != total {
                return Err(violation(&header, &format!("has {} bytes, and says {total}", payload.len())));
            }
            let keep = keep();
            let body = if keep == Keep::Whole { Bytes::copy_from_slice(payload) } else { Bytes::new() };
            return Ok(Some(Assembled { header, body, keep }));
        }
        if self.parts.iter().filter(|part| queue(&part.header) == class).count() >= class.interleaved_max() {
            return Err(violation(
                &header,
                &format!("begins one message more of the class {class} than are sent at once"),
            ));
        }
        let keep = keep();
        let capacity = if keep == Keep::Whole { total.min(FIRST_BYTES) } else { 0 };
        let mut part = Part { header, body: BytesMut::with_capacity(capacity), arrived: 0, keep };
        part.append(payload)?;
        self.parts.push(part);
        Ok(None)
    }

    fn go_on(&mut self, place: usize, header: Header, payload: &[u8]) -> Result<Option<Assembled>> {
        let part = &mut self.parts[place];
        part.append(payload)?;
        if !header.is_last {
            return Ok(None);
        }
        let Part { header, body, arrived, keep } = self.parts.swap_remove(place);
        if arrived != header.message_bytes as usize {
            return Err(violation(&header, &format!("has {arrived} bytes, and says {}", header.message_bytes)));
        }
        Ok(Some(Assembled { header, body: body.freeze(), keep }))
    }

    /// Forgets a request or notice that has not arrived as a whole. `None` if there is none.
    pub(crate) fn discard(&mut self, id: u64) -> Option<(Class, u64)> {
        let place = self.parts.iter().position(|part| queue(&part.header) != Class::Reply && part.header.id == id)?;
        let part = self.parts.swap_remove(place);
        Some((part.header.class, u64::from(part.header.message_bytes)))
    }

    /// So much was given back to the sender.
    pub(crate) fn give_back(&mut self, class: Class, returned: Window) {
        self.in_use[class.index()].remove(returned);
    }
}

impl Part {
    fn is_of(&self, header: &Header) -> bool {
        self.header.id == header.id && self.header.frame_type == header.frame_type && self.header.class == header.class
    }

    fn append(&mut self, payload: &[u8]) -> Result<()> {
        self.arrived += payload.len();
        if payload.is_empty() || self.arrived > self.header.message_bytes as usize {
            return Err(violation(&self.header, "has a fragment that is empty or too long"));
        }
        if self.keep == Keep::Whole {
            self.body.extend_from_slice(payload);
        }
        Ok(())
    }
}

/// Answers are counted by themselves, whatever the class of their connection.
fn queue(header: &Header) -> Class {
    match header.frame_type {
        FrameType::Answer | FrameType::Failure => Class::Reply,
        _ => header.class,
    }
}

fn violation(header: &Header, what: &str) -> Error {
    Error::corrupt(format!("a frame of message {} {what}", header.id))
}
