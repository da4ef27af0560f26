//! One connection, as those see it who use it: what waits to be sent, calls that wait for an answer, and requests that came in.
//!
//! A channel exists before its connection: messages gather in it while the peer is dialed. The task that moves the bytes
//! is the [`Driver`](crate::driver::Driver); both meet in the state here, under one short lock.

use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::task::AtomicWaker;
use mainstay_core::time::Instant;
use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use slab::Slab;

use crate::cancellation::Cancellation;
use crate::class::{Class, Lane};
use crate::frame::{FrameType, Header};
use crate::kind::Kind;
use crate::outbox::{Outbox, Outgoing, Piece, Withdrawn};
use crate::travel;
use crate::window::Window;

/// New requests are refused as `Overloaded` while answers of so many bytes wait for the peer to read them.
const ANSWER_BYTES_SOFT_MAX: u64 = 32 << 20;

/// An answer is replaced by an error when answers of so many bytes wait: the peer does not read what it has asked for.
const ANSWER_BYTES_MAX: u64 = 128 << 20;

/// The index in the id of a message that waits for no answer.
const NO_SLOT: u32 = u32::MAX;

/// One connection, open or about to be.
pub(crate) struct Channel {
    lane: Lane,
    /// For messages to people: whom this leads to.
    name: String,
    state: Mutex<State>,
    driver: AtomicWaker,
}

struct State {
    phase: Phase,
    outbox: Outbox,
    calls: Slab<Call>,
    /// Makes ids differ that share a slot.
    serial: u32,
    /// Calls without an outcome.
    awaited: usize,
    /// Places of messages that wait to be sent or that the receiver has, and how many there are.
    taken: [Window; Class::COUNT],
    places: [Window; Class::COUNT],
    /// Calls that were sent and are not waited for any more.
    cancelled: Vec<u64>,
    requests: BTreeMap<u64, Arc<Cancellation>>,
    /// Messages that came in and that their handler has not let go of.
    held: u64,
    answer_bytes: u64,
    granted: [Window; Class::COUNT],
    /// What is free again for the sender, and was not told to it.
    returned: [Window; Class::COUNT],
    ping: Option<u64>,
    pong: Option<u64>,
    goodbye: Goodbye,
}

enum Phase {
    Waiting,
    Open { version: u8 },
    Closed { cause: String },
}

/// How far an orderly end has come.
#[derive(Debug, Clone, Copy, Default)]
struct Goodbye {
    /// Nothing new is begun here.
    is_said: bool,
    is_sent: bool,
    is_received: bool,
}

struct Call {
    serial: u32,
    class: Class,
    bytes: u64,
    /// All of it was handed to the connection: the peer may have carried it out.
    is_sent: bool,
    outcome: Option<Result<Bytes>>,
    waker: Option<Waker>,
}

/// Why a message was not taken.
pub(crate) enum Untaken {
    /// For good.
    Failed(Error),
    /// The connection ends, and the next one will do. The message is given back.
    Ending(Bytes),
}

impl Channel {
    pub(crate) fn new(lane: Lane, name: String, granted: [Window; Class::COUNT]) -> Arc<Self> {
        let state = State {
            phase: Phase::Waiting,
            outbox: Outbox::new(lane),
            calls: Slab::new(),
            serial: 0,
            awaited: 0,
            taken: Default::default(),
            // Until the peer has said what it takes in, it is expected to take in what we do.
            places: granted,
            cancelled: Vec::new(),
            requests: BTreeMap::new(),
            held: 0,
            answer_bytes: 0,
            granted,
            returned: Default::default(),
            ping: None,
            pong: None,
            goodbye: Goodbye::default(),
        };
        Arc::new(Self { lane, name, state: Mutex::new(state), driver: AtomicWaker::new() })
    }

    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// What the driver is woken by.
    pub(crate) fn register(&self, waker: &Waker) {
        self.driver.register(waker);
    }

    /// A connection is there: what waits may go.
    pub(crate) fn open(&self, version: u8, places: [Window; Class::COUNT]) {
        let mut wakers = Vec::new();
        let mut state = self.state.lock();
        state.phase = Phase::Open { version };
        state.places = places;
        let refused = state.outbox.open(version, places);
        for (class, id, bytes) in refused {
            state.taken[class.index()].remove(Window { messages: 1, bytes });
            let error = self.full(class, bytes, places[class.index()], Window::default());
            if let Some((_, call)) = call_of(&mut state.calls, id) {
                call.outcome = Some(Err(error));
                wakers.extend(call.waker.take());
                state.awaited -= 1;
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The connection is gone, or never came. Everybody who waits is told, and whether the peer may have done what was asked.
    pub(crate) fn close(&self, cause: &str) {
        let mut wakers = Vec::new();
        let requests;
        {
            let mut state = self.state.lock();
            if matches!(state.phase, Phase::Closed { .. }) {
                return;
            }
            state.phase = Phase::Closed { cause: cause.to_owned() };
            state.outbox.clear();
            state.awaited = 0;
            for (_, call) in &mut state.calls {
                if call.outcome.is_none() {
                    call.outcome = Some(Err(self.lost(cause, call.is_sent)));
                    wakers.extend(call.waker.take());
                }
            }
            requests = std::mem::take(&mut state.requests);
        }
        requests.into_values().for_each(|cancellation| cancellation.cancel());
        wakers.into_iter().for_each(Waker::wake);
        self.driver.wake();
    }

    fn lost(&self, cause: &str, is_sent: bool) -> Error {
        let (kind, what) = match is_sent {
            true => (
                ErrorKind::OutcomeUnknown,
                "the connection was lost before the answer came, and the request may have been carried out",
            ),
            false => (ErrorKind::Retry, "the request was not sent"),
        };
        Error::new(kind, format!("{}: {what}", self.name)).with_source(cause.to_owned())
    }

    /// Nothing new is begun here; what is under way ends.
    pub(crate) fn say_goodbye(&self) {
        self.state.lock().goodbye.is_said = true;
        self.driver.wake();
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Closed { .. })
    }

    /// Puts a message in the line of its class; with `wants_answer`, returns the number of the call.
    pub(crate) fn begin(
        &self,
        class: Class,
        kind: Kind,
        body: Bytes,
        deadline: Option<Instant>,
        wants_answer: bool,
    ) -> std::result::Result<u64, Untaken> {
        let bytes = body.len() as u64;
        let mut state = self.state.lock();
        if let Phase::Closed { cause } = &state.phase {
            return Err(Untaken::Failed(self.lost(cause, false)));
        }
        if state.goodbye.is_said {
            return Err(Untaken::Ending(body));
        }
        let (places, taken) = (state.places[class.index()], state.taken[class.index()]);
        if !places.has_room(taken, bytes) {
            return Err(Untaken::Failed(self.full(class, bytes, places, taken)));
        }
        state.taken[class.index()].add(bytes);
        state.serial = state.serial.wrapping_add(1);
        let serial = state.serial;
        let slot = match wants_answer {
            // There are as many slots as places, which are counted in 32 bits.
            true => {
                state.calls.insert(Call { serial, class, bytes, is_sent: false, outcome: None, waker: None }) as u32
            }
            false => NO_SLOT,
        };
        state.awaited += usize::from(wants_answer);
        let id = u64::from(serial) << 32 | u64::from(slot);
        let frame_type = if wants_answer { FrameType::Request } else { FrameType::Notice };
        let mut message = Outgoing::new(frame_type, class, kind, id, body);
        message.deadline = deadline;
        state.outbox.push(message);
        drop(state);
        self.driver.wake();
        Ok(id)
    }

    #[cold]
    fn full(&self, class: Class, bytes: u64, places: Window, taken: Window) -> Error {
        if !places.has_room(Window::default(), bytes) {
            let text = format!("{}: {bytes} bytes of class {class} are more than it takes in at a time", self.name);
            return Error::new(ErrorKind::TooLarge, text);
        }
        Error::new(
            ErrorKind::Overloaded,
            format!(
                "{} has {} messages of class {class} with {} bytes, and takes in {} with {}: slow down",
                self.name, taken.messages, taken.bytes, places.messages, places.bytes
            ),
        )
    }

    /// The outcome of a call.
    pub(crate) fn poll_call(&self, id: u64, cx: &mut Context<'_>) -> Poll<Result<Bytes>> {
        let mut state = self.state.lock();
        let Some((slot, call)) = call_of(&mut state.calls, id) else {
            return Poll::Ready(Err(Error::fatal("a call was asked for twice")));
        };
        match call.outcome.take() {
            Some(outcome) => {
                state.calls.remove(slot);
                Poll::Ready(outcome)
            }
            None => {
                match &mut call.waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => call.waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    /// The caller does not wait any more. True if the peer may have carried the request out.
    pub(crate) fn abandon(&self, id: u64) -> bool {
        let mut state = self.state.lock();
        let Some((slot, _)) = call_of(&mut state.calls, id) else { return true };
        let call = state.calls.remove(slot);
        if call.outcome.is_some() || matches!(state.phase, Phase::Closed { .. }) {
            return call.is_sent;
        }
        state.awaited -= 1;
        match state.outbox.withdraw(call.class, id) {
            Withdrawn::Unsent => {
                state.taken[call.class.index()].remove(Window { messages: 1, bytes: call.bytes });
                return false;
            }
            // The place is free when the receiver says so.
            Withdrawn::Partly | Withdrawn::Gone => state.cancelled.push(id),
        }
        drop(state);
        self.driver.wake();
        call.is_sent
    }

    // What the driver does.

    /// Is anybody waiting for this answer?
    pub(crate) fn is_awaited(&self, id: u64) -> bool {
        call_of(&mut self.state.lock().calls, id).is_some()
    }

    /// Answers have come. `wakers` is empty before and after.
    pub(crate) fn deliver(&self, answers: &mut Vec<(u64, Result<Bytes>)>, wakers: &mut Vec<Waker>) {
        {
            let mut state = self.state.lock();
            let mut delivered = 0;
            for (id, outcome) in answers.drain(..) {
                if let Some((_, call)) = call_of(&mut state.calls, id)
                    && call.outcome.is_none()
                {
                    call.outcome = Some(outcome);
                    wakers.extend(call.waker.take());
                    delivered += 1;
                }
            }
            state.awaited -= delivered;
        }
        wakers.drain(..).for_each(Waker::wake);
    }

    /// A message has come in. `None` if a request with this number is under way already.
    pub(crate) fn arrived(&self, request: Option<u64>) -> Option<Option<Arc<Cancellation>>> {
        let mut state = self.state.lock();
        let cancellation = match request {
            Some(id) => {
                // The one that is under way stays, and is cancelled with the connection.
                let Entry::Vacant(place) = state.requests.entry(id) else { return None };
                Some(place.insert(Arc::default()).clone())
            }
            None => None,
        };
        state.held += 1;
        Some(cancellation)
    }

    /// Do so many answers wait that no request should add one?
    pub(crate) fn is_clogged(&self) -> bool {
        self.state.lock().answer_bytes > ANSWER_BYTES_SOFT_MAX
    }

    /// The sender of a request does not wait any more.
    pub(crate) fn cancel(&self, id: u64) {
        let cancellation = self.state.lock().requests.get(&id).cloned();
        if let Some(cancellation) = cancellation {
            cancellation.cancel();
        }
    }

    /// A notice, or a request that is not waited for, was let go of by its handler.
    pub(crate) fn release(&self, class: Class, bytes: u64, request: Option<u64>) {
        let mut state = self.state.lock();
        if let Some(id) = request {
            state.requests.remove(&id);
        }
        state.held = state.held.saturating_sub(1);
        if state.give_back(class, bytes) {
            drop(state);
            self.driver.wake();
        }
    }

    /// A message was cancelled before it had arrived as a whole.
    pub(crate) fn forgo(&self, class: Class, bytes: u64) {
        self.state.lock().give_back(class, bytes);
    }

    /// Answers a request.
    pub(crate) fn answer(&self, id: u64, kind: Kind, class: Class, bytes: u64, outcome: Result<Bytes>) {
        let reply = self.lane.reply_class();
        let outcome = outcome.and_then(|body| match body.len() <= reply.message_bytes_max() {
            true => Ok(body),
            false => Err(Error::new(
                ErrorKind::OutcomeUnknown,
                format!(
                    "the request was carried out, and its answer of {} bytes is too large to be sent: ask for less",
                    body.len()
                ),
            )),
        });
        let (mut frame_type, mut body) = match outcome {
            Ok(body) => (FrameType::Answer, body),
            Err(error) => (FrameType::Failure, travel::encode(&error)),
        };
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Closed { .. }) {
            return;
        }
        state.requests.remove(&id);
        if frame_type == FrameType::Answer && state.answer_bytes.saturating_add(body.len() as u64) > ANSWER_BYTES_MAX {
            let error = Error::new(
                ErrorKind::OutcomeUnknown,
                "the request was carried out, and its answer was dropped, because too many answers wait to be read",
            );
            (frame_type, body) = (FrameType::Failure, travel::encode(&error));
        }
        state.answer_bytes += body.len() as u64;
        let mut message = Outgoing::new(frame_type, reply, kind, id, body);
        message.answered = Some((class, bytes));
        state.outbox.push(message);
        drop(state);
        self.driver.wake();
    }

    /// The receiver has let go of this much.
    pub(crate) fn credit(&self, class: Class, returned: Window) {
        let mut state = self.state.lock();
        state.taken[class.index()].remove(returned);
        state.outbox.credit(class, returned);
    }

    pub(crate) fn ping(&self, number: u64) {
        self.state.lock().ping = Some(number);
    }

    pub(crate) fn pong(&self, number: u64) {
        self.state.lock().pong = Some(number);
    }

    /// The peer begins nothing new here.
    pub(crate) fn hear_goodbye(&self) {
        let mut state = self.state.lock();
        state.goodbye.is_received = true;
        state.goodbye.is_said = true;
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.state.lock().goodbye.is_said
    }

    /// Is nothing under way, and will nothing be, on either side?
    pub(crate) fn is_finished(&self) -> bool {
        let state = self.state.lock();
        let Goodbye { is_sent, is_received, .. } = state.goodbye;
        is_sent && is_received && state.is_quiet()
    }

    /// Is nothing under way?
    pub(crate) fn is_quiet(&self) -> bool {
        self.state.lock().is_quiet()
    }

    /// Takes frames out to be written: first those of the connection itself, then messages, up to so many
    /// bytes. What was given back to the peer is added to `given_back`.
    pub(crate) fn take(
        &self,
        out: &mut Vec<Piece>,
        bytes_max: usize,
        now: Instant,
        given_back: &mut Vec<(Class, Window)>,
    ) {
        let mut state = self.state.lock();
        let Phase::Open { version } = state.phase else { return };
        let lane = self.lane;
        let control = |frame_type, id| Piece {
            header: Header::control(version, frame_type, lane, id),
            payload: Bytes::new(),
            answered: None,
        };
        if let Some(number) = state.pong.take() {
            out.push(control(FrameType::Pong, number));
        }
        if let Some(number) = state.ping.take() {
            out.push(control(FrameType::Ping, number));
        }
        for id in std::mem::take(&mut state.cancelled) {
            out.push(control(FrameType::Cancel, id));
        }
        let mut taken = 0;
        while taken < bytes_max
            && let Some(mut piece) = state.outbox.next(now)
        {
            taken += crate::frame::HEADER_BYTES + piece.payload.len();
            state.account(&mut piece);
            out.push(piece);
        }
        // What is little rides along with what is written anyway, and does not cause a write of its own.
        let rides_along = !out.is_empty();
        if let Some((header, payload)) = state.credit_frame(version, lane, rides_along, given_back) {
            out.push(Piece { header, payload, answered: None });
        }
        if state.goodbye.is_said && !state.goodbye.is_sent && state.outbox.is_empty() {
            state.goodbye.is_sent = true;
            out.push(control(FrameType::Goodbye, 0));
        }
    }

    /// How many calls wait for an answer, and how many requests of the peer are under way.
    pub(crate) fn under_way(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.awaited, state.requests.len())
    }
}

impl State {
    /// What the sending of a frame changes.
    fn account(&mut self, piece: &mut Piece) {
        let header = &piece.header;
        match header.frame_type {
            FrameType::Request if header.is_last => {
                if let Some((_, call)) = call_of(&mut self.calls, header.id) {
                    call.is_sent = true;
                }
            }
            FrameType::Answer | FrameType::Failure => {
                self.answer_bytes = self.answer_bytes.saturating_sub(piece.payload.len() as u64);
                if let Some((class, bytes)) = piece.answered.take() {
                    self.held = self.held.saturating_sub(1);
                    self.give_back(class, bytes);
                }
            }
            _ => {}
        }
    }

    /// A place is free. True if it is time to tell the sender.
    fn give_back(&mut self, class: Class, bytes: u64) -> bool {
        self.returned[class.index()].add(bytes);
        self.returned[class.index()].is_due(self.granted[class.index()])
    }

    fn credit_frame(
        &mut self,
        version: u8,
        lane: Lane,
        rides_along: bool,
        given_back: &mut Vec<(Class, Window)>,
    ) -> Option<(Header, Bytes)> {
        let mut payload = BytesMut::new();
        for class in Class::ALL {
            let returned = &mut self.returned[class.index()];
            if returned.is_due(self.granted[class.index()]) || rides_along && returned.messages > 0 {
                payload.put_u8(class.code());
                payload.put_u32_le(returned.messages);
                payload.put_u64_le(returned.bytes);
                given_back.push((class, std::mem::take(returned)));
            }
        }
        if payload.is_empty() {
            return None;
        }
        let mut header = Header::control(version, FrameType::Credit, lane, 0);
        header.message_bytes = payload.len() as u32;
        Some((header, payload.freeze()))
    }

    fn is_quiet(&self) -> bool {
        self.awaited == 0 && self.requests.is_empty() && self.held == 0 && self.outbox.is_empty()
    }
}

/// The call of an id, if it is still waited for.
fn call_of(calls: &mut Slab<Call>, id: u64) -> Option<(usize, &mut Call)> {
    let (slot, serial) = ((id & u64::from(u32::MAX)) as usize, (id >> 32) as u32);
    calls.get_mut(slot).filter(|call| call.serial == serial).map(|call| (slot, call))
}
