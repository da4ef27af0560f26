use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use crate::class::Lane;
use crate::stream::Stream;

/// Bytes that have come and were not understood yet. It has room for the largest frame of its connection, and never grows.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl ReadBuffer {
    pub(crate) fn new(lane: Lane) -> Self {
        // Several small frames at once, and the largest with its head.
        let bytes = 4 * lane.fragment_bytes_max();
        Self { bytes: vec![0; bytes].into(), start: 0, end: 0 }
    }

    /// A buffer for nothing, in the place of one that is lent out.
    pub(crate) fn empty() -> Self {
        Self { bytes: Box::default(), start: 0, end: 0 }
    }

    /// What has come.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// So much was understood.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Reads more, and returns how much; 0 at the end of the stream.
    pub(crate) fn poll_read(&mut self, stream: &mut dyn Stream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.start > self.bytes.len() / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let mut buffer = ReadBuf::new(&mut self.bytes[self.end..]);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        let count = buffer.filled().len();
        self.end += count;
        Poll::Ready(Ok(count))
    }
}
