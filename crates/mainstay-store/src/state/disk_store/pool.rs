use bytes::{Bytes, BytesMut};

/// How much memory is taken at once for values that lie side by side.
const CHUNK_BYTES: usize = 16 << 10;

/// A longer value has memory of its own.
const POOLED_BYTES_MAX: usize = 1 << 10;

/// Where the values of overlays are kept. Short ones lie side by side in chunks: an overlay gets hundreds of thousands of values
/// and loses them all at once, on another thread, and an allocation for each was a tenth of what a commit takes.
///
/// A chunk lives as long as any value in it. That is no longer than the overlays that it was filled for, and their clones in
/// snapshots; overlays count all that was put into them, whether it was replaced or not.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// What is left of the last chunk.
    chunk: BytesMut,
}

/// A value in an overlay.
#[derive(Debug, Clone)]
pub(super) struct Pooled(Bytes);

impl Pool {
    pub(super) fn keep(&mut self, value: &[u8]) -> Pooled {
        if value.is_empty() || value.len() > POOLED_BYTES_MAX {
            return Pooled(Bytes::copy_from_slice(value));
        }
        if self.chunk.capacity() < value.len() {
            self.chunk = BytesMut::with_capacity(CHUNK_BYTES);
        }
        self.chunk.extend_from_slice(value);
        Pooled(self.chunk.split().freeze())
    }
}

impl Pooled {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// The value for somebody who may keep it for long: it keeps nothing else alive.
    pub(super) fn to_bytes(&self) -> Bytes {
        if self.0.len() > POOLED_BYTES_MAX { self.0.clone() } else { Bytes::copy_from_slice(&self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_as_they_are_whatever_their_length() {
        let mut pool = Pool::default();
        let lengths = || (0..3 * POOLED_BYTES_MAX).step_by(7).chain([POOLED_BYTES_MAX, POOLED_BYTES_MAX + 1]);
        let value = |len: usize| vec![len as u8; len];
        let kept: Vec<Pooled> = lengths().map(|len| pool.keep(&value(len))).collect();
        for (len, kept) in lengths().zip(&kept) {
            assert_eq!(kept.as_slice(), value(len));
            assert_eq!(kept.to_bytes(), value(len));
        }
    }

    #[test]
    fn short_values_lie_side_by_side_and_leave_alone() {
        let mut pool = Pool::default();
        let [first, second] = [pool.keep(b"alice"), pool.keep(b"bob")];
        assert_eq!(first.as_slice().as_ptr_range().end, second.as_slice().as_ptr());
        let taken = first.to_bytes();
        assert_ne!(taken.as_ptr(), first.as_slice().as_ptr(), "else it would keep the whole chunk");
        let long = pool.keep(&[1; POOLED_BYTES_MAX + 1]);
        assert_eq!(long.to_bytes().as_ptr(), long.as_slice().as_ptr(), "a long one is not copied");
    }
}
