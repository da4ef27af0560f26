//! The task of one connection: it reads frames and hands on what they bring, and writes what waits in the [`Channel`].
//!
//! One task does both, so that what a batch of frames leads to (answers, new calls of woken callers) leaves in one write, and
//! nothing is locked or woken in between. Reading never waits for writing: two peers that both have much to send do not lock up.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::time::{self, Instant};
use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::io::AsyncWrite as _;

use crate::assembly::{Assembled, Assembly, Keep};
use crate::bucket::TokenBucket;
use crate::channel::Channel;
use crate::class::{Class, Lane};
use crate::fields::Fields;
use crate::frame::{FrameType, Header};
use crate::incoming::{GrantedPlace, Incoming};
use crate::options::LaneTiming;
use crate::outbox::Piece;
use crate::policy::{Introduction, Policy};
use crate::read_buffer::ReadBuffer;
use crate::serve::Serve;
use crate::stream::Stream;
use crate::tls::{Credentials, PeerCertificate};
use crate::travel;
use crate::window::Window;
use crate::write_buffer::WriteBuffer;

/// How much is taken to be written at a time. More than one write of a socket takes in mostly, and little to wait behind.
const FILL_BYTES: usize = 64 << 10;

/// How often a connection is read before other tasks run.
const READS_MAX: usize = 8;

/// How often it is looked at whether the peer's certificate still counts.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

/// How long before a certificate expires its connection is replaced, so that nothing is under way on it then.
const RENEWED_AHEAD: Duration = Duration::from_secs(5 * 60);

/// What a connection that was agreed on consists of.
pub(crate) struct Driver {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) channel: Arc<Channel>,
    pub(crate) peer: Arc<Introduction>,
    pub(crate) serve: Arc<dyn Serve>,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) timing: LaneTiming,
    pub(crate) granted: [Window; Class::COUNT],
    /// The rate of the bulk lane, which all bulk connections share.
    pub(crate) bucket: Option<Arc<Mutex<TokenBucket>>>,
    pub(crate) certificate: Option<(Arc<Credentials>, PeerCertificate)>,
    pub(crate) supervisor: Box<dyn Supervisor>,
}

/// What is told of what happens on a connection.
pub(crate) trait Supervisor: Send {
    /// The peer has done what it may not.
    fn complain(&self, what: &str);

    /// The connection comes to an orderly end, and nothing new is begun on it.
    fn ending(&self);
}

impl Driver {
    /// Moves bytes until the connection ends, and returns why it has. `Ok` is an orderly end.
    pub(crate) async fn run(self) -> Result<()> {
        let now = time::now();
        let (lane, version) = (self.channel.lane(), self.peer.protocol);
        let mut connection = Running {
            assembly: Assembly::new(self.granted),
            // All versions of frames that there are fit into their byte.
            version: u8::try_from(version).unwrap_or(u8::MAX),
            lane,
            input: ReadBuffer::new(lane),
            output: WriteBuffer::default(),
            pieces: Vec::new(),
            answers: Vec::new(),
            wakers: Vec::new(),
            given_back: Vec::new(),
            heard: now,
            used: now,
            recheck: now + RECHECK_INTERVAL,
            pings: 0,
            is_pinged: false,
            is_flushed: true,
            timer: Box::pin(time::sleep_until(now + self.timing.ping_after)),
            pace: None,
            driver: self,
        };
        let outcome = std::future::poll_fn(|cx| connection.poll(cx)).await;
        // An orderly end is told to the other side; whoever has gone is not waited for.
        let stream = &mut connection.driver.stream;
        let shutdown = std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_shutdown(cx));
        let _ = time::timeout(Duration::from_millis(100), shutdown).await;
        outcome
    }
}

struct Running {
    driver: Driver,
    lane: Lane,
    version: u8,
    assembly: Assembly,
    input: ReadBuffer,
    output: WriteBuffer,
    pieces: Vec<Piece>,
    answers: Vec<(u64, Result<Bytes>)>,
    wakers: Vec<Waker>,
    given_back: Vec<(Class, Window)>,
    /// When a whole frame came last. Bytes that complete none do not count: half a frame is no sign of life.
    heard: Instant,
    /// When a message came or went last.
    used: Instant,
    recheck: Instant,
    pings: u64,
    is_pinged: bool,
    is_flushed: bool,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
    pace: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Running {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.driver.channel.register(cx.waker());
        if self.driver.channel.is_closed() {
            return Poll::Ready(Err(Error::new(ErrorKind::Retry, "the connection was closed here")));
        }
        let now = time::now();
        match self.advance(now, cx) {
            Ok(()) if self.driver.channel.is_finished() && self.output.is_empty() && self.is_flushed => {
                Poll::Ready(Ok(()))
            }
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn advance(&mut self, now: Instant, cx: &mut Context<'_>) -> Result<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let next = self.tick(now)?;
            self.timer = Box::pin(time::sleep_until(next));
        }
        self.read(now, cx)?;
        self.write(now, cx)
    }

    /// Looks at the clock, and says when to do so again.
    fn tick(&mut self, now: Instant) -> Result<Instant> {
        let LaneTiming { ping_after, silence_max, idle_max } = self.driver.timing;
        let silent = now.saturating_duration_since(self.heard);
        if silent >= silence_max {
            return Err(Error::new(
                ErrorKind::Retry,
                format!("no frame has come for {silent:?}: the peer or the network is gone"),
            ));
        }
        if now >= self.recheck {
            self.recheck = now + RECHECK_INTERVAL;
            if let Some((credentials, certificate)) = &self.driver.certificate {
                credentials.recheck(certificate, Duration::ZERO)?;
                if credentials.recheck(certificate, RENEWED_AHEAD).is_err() {
                    self.end();
                }
            }
        }
        if let Some(idle_max) = idle_max
            && now.saturating_duration_since(self.used) >= idle_max
            && self.driver.channel.is_quiet()
        {
            self.end();
        }
        if silent >= ping_after && !self.is_pinged {
            self.pings += 1;
            self.is_pinged = true;
            self.driver.channel.ping(self.pings);
        }
        let next = if self.is_pinged { self.heard + silence_max } else { self.heard + ping_after };
        // Never at once again.
        Ok(next.max(now + Duration::from_millis(1)))
    }

    /// Brings the connection to an orderly end.
    fn end(&mut self) {
        if !self.driver.channel.is_ending() {
            self.driver.channel.say_goodbye();
            self.driver.supervisor.ending();
        }
    }

    fn read(&mut self, now: Instant, cx: &mut Context<'_>) -> Result<()> {
        for _ in 0..READS_MAX {
            match self.input.poll_read(&mut *self.driver.stream, cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) if self.driver.channel.is_finished() => return Ok(()),
                Poll::Ready(Ok(0)) => {
                    return Err(Error::new(ErrorKind::Retry, "the peer has closed the connection"));
                }
                Poll::Ready(Ok(_)) => self.take_frames(now)?,
                Poll::Ready(Err(error)) => {
                    return Err(Error::new(ErrorKind::Retry, "the connection has failed").with_source(error));
                }
            }
        }
        // There may be more; others first.
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn take_frames(&mut self, now: Instant) -> Result<()> {
        let mut outcome = Ok(());
        // The buffer is lent out for as long as frames in it are looked at.
        let mut input = std::mem::replace(&mut self.input, ReadBuffer::empty());
        loop {
            match Header::decode(input.filled(), self.lane, self.version) {
                Ok(Some(frame)) => {
                    let length = frame.length;
                    outcome = self.take_frame(frame.header, frame.payload, now);
                    input.consume(length);
                    self.heard = now;
                    self.is_pinged = false;
                }
                Ok(None) => break,
                Err(error) => outcome = Err(error),
            }
            if outcome.is_err() {
                break;
            }
        }
        self.input = input;
        self.driver.channel.deliver(&mut self.answers, &mut self.wakers);
        outcome
    }

    fn take_frame(&mut self, header: Header, payload: &[u8], now: Instant) -> Result<()> {
        let channel = &self.driver.channel;
        match header.frame_type {
            FrameType::Ping => channel.pong(header.id),
            FrameType::Pong => {}
            FrameType::Goodbye => {
                channel.hear_goodbye();
                self.driver.supervisor.ending();
            }
            FrameType::Credit => return self.take_credit(payload),
            FrameType::Cancel => match self.assembly.discard(header.id) {
                Some((class, bytes)) => channel.forgo(class, bytes),
                None => channel.cancel(header.id),
            },
            FrameType::Request | FrameType::Notice => {
                self.used = now;
                let (policy, sender) = (&self.driver.policy, &self.driver.peer.sender);
                let keep = || match policy.allows(sender, header.class, header.kind) {
                    true => Keep::Whole,
                    false => Keep::Nothing,
                };
                if let Some(message) = self.assembly.add(header, payload, keep)? {
                    self.hand_on(message, now)?;
                }
            }
            FrameType::Answer | FrameType::Failure => {
                self.used = now;
                let keep = || if channel.is_awaited(header.id) { Keep::Whole } else { Keep::Nothing };
                if let Some(Assembled { header, body, keep: Keep::Whole }) = self.assembly.add(header, payload, keep)? {
                    let outcome = match header.frame_type {
                        FrameType::Answer => Ok(body),
                        _ => Err(travel::decode(&body)),
                    };
                    self.answers.push((header.id, outcome));
                }
            }
            FrameType::Unknown(code) => {
                if let Some(message) = self.assembly.add(header, payload, || Keep::Nothing)? {
                    self.refuse_unknown(message, code)?;
                }
            }
        }
        Ok(())
    }

    fn take_credit(&mut self, payload: &[u8]) -> Result<()> {
        let mut fields = Fields::new("a credit", payload);
        while !fields.is_empty() {
            let class = Class::from_code(fields.u8()?);
            let returned = Window { messages: fields.u32()?, bytes: fields.u64()? };
            // Of a class that a later version has, nothing was sent.
            if let Some(class) = class {
                self.driver.channel.credit(class, returned);
            }
        }
        Ok(())
    }

    /// A request or a notice has come as a whole.
    fn hand_on(&mut self, message: Assembled, now: Instant) -> Result<()> {
        let Assembled { header, body, keep } = message;
        let Some(place) = self.place(&header) else {
            return Err(Error::corrupt(format!("request {} has come twice", header.id)));
        };
        let wants_answer = place.request.is_some();
        if keep == Keep::Nothing {
            let (sender, kind) = (&self.driver.peer.sender, header.kind);
            let text = format!("{sender} may not send messages of kind {kind} in class {}", header.class);
            self.driver.supervisor.complain(&text);
            Incoming::new(Bytes::new(), None, place)
                .answer(Err(Error::invalid(format!("{text}, and nothing was done"))));
            return Ok(());
        }
        if wants_answer && self.driver.channel.is_clogged() {
            let error = Error::new(
                ErrorKind::Overloaded,
                "too many answers wait to be read, and nothing was done: read them first",
            );
            Incoming::new(Bytes::new(), None, place).answer(Err(error));
            return Ok(());
        }
        let remaining = header.remaining_ms.map(|millis| Duration::from_millis(u64::from(millis)));
        let incoming = Incoming::new(body, remaining.map(|remaining| now + remaining), place);
        self.driver.serve.receive(incoming);
        Ok(())
    }

    fn refuse_unknown(&mut self, message: Assembled, code: u8) -> Result<()> {
        let Assembled { mut header, .. } = message;
        header.frame_type = if header.wants_answer { FrameType::Request } else { FrameType::Notice };
        let Some(place) = self.place(&header) else {
            return Err(Error::corrupt(format!("message {} has come twice", header.id)));
        };
        let text =
            format!("frames of type {code} are not known here, and nothing was done: a newer build may know them");
        Incoming::new(Bytes::new(), None, place).answer(Err(Error::invalid(text)));
        Ok(())
    }

    fn place(&self, header: &Header) -> Option<GrantedPlace> {
        let request = (header.frame_type == FrameType::Request).then_some(header.id);
        let cancellation = self.driver.channel.arrived(request)?;
        Some(GrantedPlace {
            channel: self.driver.channel.clone(),
            from: self.driver.peer.clone(),
            class: header.class,
            kind: header.kind,
            bytes: u64::from(header.message_bytes),
            request: request.zip(cancellation),
            is_free: false,
        })
    }

    fn write(&mut self, now: Instant, cx: &mut Context<'_>) -> Result<()> {
        loop {
            if self.output.len() < FILL_BYTES {
                self.fill(now, cx);
            }
            if self.output.is_empty() {
                break;
            }
            self.is_flushed = false;
            match self.output.poll_write(&mut *self.driver.stream, cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Err(write_failed(error)),
                Poll::Pending => return Ok(()),
            }
        }
        match Pin::new(&mut *self.driver.stream).poll_flush(cx) {
            Poll::Ready(Err(error)) => Err(write_failed(error)),
            Poll::Ready(Ok(())) => {
                self.is_flushed = true;
                Ok(())
            }
            Poll::Pending => Ok(()),
        }
    }

    /// Takes what waits into the buffer, as much as the rate allows.
    fn fill(&mut self, now: Instant, cx: &mut Context<'_>) {
        let bytes_max = match &self.driver.bucket {
            None => FILL_BYTES,
            Some(bucket) => match bucket.lock().ready(now) {
                Ok(()) => FILL_BYTES,
                Err(until) => {
                    let mut pace = Box::pin(time::sleep_until(until));
                    if pace.as_mut().poll(cx).is_ready() {
                        cx.waker().wake_by_ref();
                    }
                    self.pace = Some(pace);
                    0
                }
            },
        };
        self.driver.channel.take(&mut self.pieces, bytes_max, now, &mut self.given_back);
        let mut bytes = 0;
        for piece in self.pieces.drain(..) {
            if !piece.payload.is_empty() {
                self.used = now;
            }
            bytes += piece.payload.len();
            self.output.push(&piece);
        }
        if let Some(bucket) = &self.driver.bucket
            && bytes > 0
        {
            bucket.lock().spend(bytes, now);
        }
        for (class, returned) in self.given_back.drain(..) {
            self.assembly.give_back(class, returned);
        }
    }
}

fn write_failed(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Retry, "the connection has failed").with_source(error)
}
