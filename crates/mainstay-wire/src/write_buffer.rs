use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};

use crate::outbox::Piece;
use crate::stream::Stream;

/// A payload up to this is copied beside its head; a larger one is written from where it is.
const COPIED_BYTES_MAX: usize = 4 << 10;

/// The most parts of one write.
const SLICES_MAX: usize = 16;

/// Frames on their way to a stream: many small ones in one part, large ones as parts of their own, all in one write.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    parts: VecDeque<Bytes>,
    tail: BytesMut,
    bytes: usize,
}

impl WriteBuffer {
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(crate) fn push(&mut self, piece: &Piece) {
        let before = self.tail.len();
        if piece.payload.len() <= COPIED_BYTES_MAX {
            piece.header.encode(&piece.payload, &mut self.tail);
            self.bytes += self.tail.len() - before;
            return;
        }
        piece.header.encode_head(&piece.payload, &mut self.tail);
        self.bytes += self.tail.len() - before + piece.payload.len();
        self.parts.push_back(self.tail.split().freeze());
        self.parts.push_back(piece.payload.clone());
    }

    /// Writes what there is; ready when all of it was taken.
    pub(crate) fn poll_write(&mut self, stream: &mut dyn Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.bytes > 0 {
            let written = if self.parts.is_empty() {
                ready!(Pin::new(&mut *stream).poll_write(cx, &self.tail))?
            } else if stream.is_write_vectored() {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let parts = self.parts.iter().map(|part| &part[..]).chain(std::iter::once(&self.tail[..]));
                let mut count = 0;
                for (slice, part) in slices.iter_mut().zip(parts) {
                    *slice = IoSlice::new(part);
                    count += 1;
                }
                ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices[..count]))?
            } else {
                let part = self.parts.front().map_or(&self.tail[..], |part| &part[..]);
                ready!(Pin::new(&mut *stream).poll_write(cx, part))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(part) = self.parts.front_mut() {
            let count = written.min(part.len());
            part.advance(count);
            written -= count;
            if !part.is_empty() {
                return;
            }
            self.parts.pop_front();
        }
        self.tail.advance(written);
    }
}
