//! What waits to be sent on one connection, and in which order it goes.

use std::collections::VecDeque;

use bytes::Bytes;
use mainstay_core::time::Instant;

use crate::class::{Class, Lane};
use crate::frame::{FrameType, HEADER_BYTES, Header};
use crate::kind::Kind;
use crate::window::Window;

/// A unit of work for every byte, divided by the weight of a class, so that the division loses little.
const SCALE: u64 = 1 << 10;

/// A message that is to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) frame_type: FrameType,
    pub(crate) class: Class,
    pub(crate) kind: Kind,
    pub(crate) id: u64,
    pub(crate) body: Bytes,
    pub(crate) deadline: Option<Instant>,
    /// The place that the request which this answers takes, until the answer has left.
    pub(crate) answered: Option<(Class, u64)>,
    sent: usize,
}

/// A frame that is to be written.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) header: Header,
    pub(crate) payload: Bytes,
    /// With the last piece of an answer: the place that is free now.
    pub(crate) answered: Option<(Class, u64)>,
}

/// Where a message is that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Withdrawn {
    /// Nothing of it was sent.
    Unsent,
    /// A part of it was sent.
    Partly,
    /// It is not here any more: all of it was sent.
    Gone,
}

/// Messages by class. Which class is next depends on the weights; within a class the order is that of arrival, of messages
/// that are sent in turn where the class allows several.
#[derive(Debug)]
pub(crate) struct Outbox {
    lane: Lane,
    version: u8,
    queues: [Queue; Class::COUNT],
    /// The work that the class had which was served last: a class that was idle starts from here, and gets nothing for its rest.
    clock: u64,
    /// What the receiver takes in of each class, and what it has.
    granted: [Window; Class::COUNT],
    at_peer: [Window; Class::COUNT],
}

#[derive(Debug, Default)]
struct Queue {
    /// Of which a part may have been sent.
    open: VecDeque<Outgoing>,
    waiting: VecDeque<Outgoing>,
    work: u64,
}

impl Outgoing {
    pub(crate) fn new(frame_type: FrameType, class: Class, kind: Kind, id: u64, body: Bytes) -> Self {
        Self { frame_type, class, kind, id, body, deadline: None, answered: None, sent: 0 }
    }

    fn is_answer(&self) -> bool {
        matches!(self.frame_type, FrameType::Answer | FrameType::Failure)
    }

    /// Answers have a queue of their own on every connection: they wait for no credit, so they must not wait behind what does.
    fn queue(&self) -> Class {
        if self.is_answer() { Class::Reply } else { self.class }
    }
}

impl Outbox {
    pub(crate) fn new(lane: Lane) -> Self {
        let (queues, at_peer) = (Default::default(), Default::default());
        Self { lane, version: 0, queues, clock: 0, granted: Default::default(), at_peer }
    }

    /// Lets messages go, now that it is known what the receiver speaks and takes in. Takes out and returns what it never
    /// will.
    pub(crate) fn open(&mut self, version: u8, granted: [Window; Class::COUNT]) -> Vec<(Class, u64, u64)> {
        self.version = version;
        self.granted = granted;
        let mut refused = Vec::new();
        for class in Class::ALL.into_iter().filter(|class| *class != Class::Reply) {
            self.queues[class.index()].waiting.retain(|message| {
                let bytes = message.body.len() as u64;
                let fits = granted[class.index()].has_room(Window::default(), bytes);
                if !fits {
                    refused.push((class, message.id, bytes));
                }
                fits
            });
        }
        refused
    }

    pub(crate) fn push(&mut self, message: Outgoing) {
        let queue = &mut self.queues[message.queue().index()];
        if queue.is_empty() {
            queue.work = queue.work.max(self.clock);
        }
        queue.waiting.push_back(message);
    }

    /// The receiver has let go of this much.
    pub(crate) fn credit(&mut self, class: Class, returned: Window) {
        self.at_peer[class.index()].remove(returned);
    }

    /// Takes a request or notice out again.
    pub(crate) fn withdraw(&mut self, class: Class, id: u64) -> Withdrawn {
        let queue = &mut self.queues[class.index()];
        if let Some(place) = queue.waiting.iter().position(|message| message.id == id) {
            queue.waiting.remove(place);
            return Withdrawn::Unsent;
        }
        match queue.open.iter().position(|message| message.id == id) {
            Some(place) => {
                let message = queue.open.remove(place);
                // Of one that is next in turn, nothing may have been sent. The receiver gives back what it has heard of alone.
                if let Some(message) = message.filter(|message| message.sent == 0) {
                    self.at_peer[class.index()].remove(Window { messages: 1, bytes: message.body.len() as u64 });
                    return Withdrawn::Unsent;
                }
                Withdrawn::Partly
            }
            None => Withdrawn::Gone,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(Queue::is_empty)
    }

    /// The next frame; `None` if nothing waits, or nothing that the receiver has room for.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Piece> {
        let ready = |class: &Class| self.queues[class.index()].is_ready(*class, &self.granted, &self.at_peer);
        let class = Class::ALL.into_iter().filter(ready).min_by_key(|class| self.queues[class.index()].work)?;
        let queue = &mut self.queues[class.index()];
        self.clock = queue.work;
        while queue.open.len() < class.interleaved_max()
            && let Some(message) = queue.waiting.front()
        {
            let bytes = message.body.len() as u64;
            if class != Class::Reply {
                if !self.granted[class.index()].has_room(self.at_peer[class.index()], bytes) {
                    break;
                }
                self.at_peer[class.index()].add(bytes);
            }
            queue.open.extend(queue.waiting.pop_front());
        }
        let mut message = queue.open.pop_front()?;
        let piece = piece(&mut message, self.lane, self.version, now);
        queue.work += (HEADER_BYTES + piece.payload.len()) as u64 * SCALE / class.weight();
        if !piece.header.is_last {
            queue.open.push_back(message);
        }
        Some(piece)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        for queue in &mut self.queues {
            queue.open.clear();
            queue.waiting.clear();
        }
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.waiting.is_empty()
    }

    /// Can a frame be sent of it?
    fn is_ready(&self, class: Class, granted: &[Window; Class::COUNT], at_peer: &[Window; Class::COUNT]) -> bool {
        let Some(message) = self.waiting.front().filter(|_| self.open.is_empty()) else { return !self.open.is_empty() };
        class == Class::Reply || granted[class.index()].has_room(at_peer[class.index()], message.body.len() as u64)
    }
}

/// The next frame of a message.
fn piece(message: &mut Outgoing, lane: Lane, version: u8, now: Instant) -> Piece {
    let start = message.sent;
    let end = message.body.len().min(start + lane.fragment_bytes_max());
    message.sent = end;
    let is_last = end == message.body.len();
    let remaining = message.deadline.map(|deadline| deadline.saturating_duration_since(now).as_millis());
    let header = Header {
        version,
        frame_type: message.frame_type,
        is_first: start == 0,
        is_last,
        wants_answer: message.frame_type == FrameType::Request,
        class: message.class,
        kind: message.kind,
        id: message.id,
        // A message has 32 MiB at most.
        message_bytes: message.body.len() as u32,
        remaining_ms: remaining.map(|millis| u32::try_from(millis).unwrap_or(u32::MAX - 1)),
    };
    let answered = if is_last { message.answered.take() } else { None };
    Piece { header, payload: message.body.slice(start..end), answered }
}

#[cfg(test)]
mod tests;
