//! One direction of a simulated connection.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, Bytes};
use mainstay_core::time::{self, Instant};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::network::Wire;

/// What may be written and not yet read: the buffers of both systems and what is on the way.
const BUFFER_BYTES: usize = 256 << 10;

/// The most that is on the link in one piece, so that connections that share it take turns.
const PACKET_BYTES: usize = 8 << 10;

/// Bytes on their way, in order.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    packets: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    /// The writer has ended it, or the connection was reset.
    end: Option<End>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
}

/// One end of a simulated connection.
pub(super) struct SimStream {
    reading: Arc<Mutex<Pipe>>,
    writing: Arc<Mutex<Pipe>>,
    /// What the bytes that are read have come over, and what those that are written go over.
    incoming: Arc<Mutex<Wire>>,
    outgoing: Arc<Mutex<Wire>>,
    arrival: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Pipe {
    pub(super) fn reset(&mut self) {
        self.end = Some(End::Reset);
        self.packets.clear();
        self.wake();
    }

    pub(super) fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

/// Both ends of a connection over two wires, and the pipes by which it can be reset.
pub(super) fn connect(
    there: &Arc<Mutex<Wire>>,
    back: &Arc<Mutex<Wire>>,
) -> (SimStream, SimStream, [Arc<Mutex<Pipe>>; 2]) {
    let pipes = [Arc::<Mutex<Pipe>>::default(), Arc::<Mutex<Pipe>>::default()];
    let [one, two] = &pipes;
    let end = |reading: &Arc<Mutex<Pipe>>,
               writing: &Arc<Mutex<Pipe>>,
               incoming: &Arc<Mutex<Wire>>,
               outgoing: &Arc<Mutex<Wire>>| {
        let (reading, writing) = (reading.clone(), writing.clone());
        SimStream { reading, writing, incoming: incoming.clone(), outgoing: outgoing.clone(), arrival: None }
    };
    (end(two, one, back, there), end(one, two, there, back), pipes)
}

impl AsyncRead for SimStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let arrives = {
                let mut pipe = self.reading.lock();
                if pipe.end == Some(End::Reset) {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                }
                pipe.reader = Some(cx.waker().clone());
                let is_cut = self.incoming.lock().is_cut;
                let now = time::now();
                let mut read = 0;
                while let Some((arrives, bytes)) =
                    pipe.packets.front_mut().filter(|(arrives, _)| !is_cut && *arrives <= now)
                {
                    let _ = arrives;
                    let count = bytes.len().min(buffer.remaining());
                    if count == 0 {
                        break;
                    }
                    buffer.put_slice(&bytes[..count]);
                    bytes.advance(count);
                    if bytes.is_empty() {
                        pipe.packets.pop_front();
                    }
                    read += count;
                }
                if read > 0 {
                    pipe.bytes -= read;
                    if let Some(writer) = pipe.writer.take() {
                        writer.wake();
                    }
                    return Poll::Ready(Ok(()));
                }
                if is_cut {
                    return Poll::Pending;
                }
                match pipe.packets.front() {
                    Some((arrives, _)) => *arrives,
                    None if pipe.end == Some(End::Closed) => return Poll::Ready(Ok(())),
                    None => return Poll::Pending,
                }
            };
            let mut arrival = Box::pin(time::sleep_until(arrives));
            let poll = arrival.as_mut().poll(cx);
            self.arrival = Some(arrival);
            if poll.is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipe = self.writing.lock();
        if pipe.end.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = BUFFER_BYTES - pipe.bytes;
        if room == 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let bytes = &bytes[..bytes.len().min(room).min(PACKET_BYTES)];
        let arrives = self.outgoing.lock().carry(bytes.len());
        pipe.packets.push_back((arrives, Bytes::copy_from_slice(bytes)));
        pipe.bytes += bytes.len();
        if let Some(reader) = pipe.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.writing.lock();
        pipe.end.get_or_insert(End::Closed);
        pipe.wake();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        for pipe in [&self.reading, &self.writing] {
            let mut pipe = pipe.lock();
            pipe.end.get_or_insert(End::Closed);
            pipe.wake();
        }
    }
}
