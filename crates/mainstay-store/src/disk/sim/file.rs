use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use rand::RngExt as _;
use rand::rngs::StdRng;

/// What a disk writes atomically, unless it has large sectors.
pub const SECTOR_BYTES: u64 = 512;

/// What a disk with large sectors writes atomically. A write past the cache that covers a sector in part makes it read, change and
/// write back the whole, and when the power fails meanwhile the sector is lost with all that is in it.
pub const LARGE_SECTOR_BYTES: u64 = CHUNK_BYTES as u64;

/// The unit in which the content is kept and in which the state before a write is remembered.
const CHUNK_BYTES: usize = 4096;

type Chunk = Box<[u8; CHUNK_BYTES]>;
/// Chunks by number; one that is not there is all zeros.
type Chunks = BTreeMap<u64, Chunk>;

/// A file: what readers see now, and what it takes to go back to what is durable.
#[derive(Debug)]
pub(super) struct SimInode {
    /// The path it was last opened or renamed to; for faults and messages.
    pub(super) path: PathBuf,
    pub(super) handles: u64,
    /// [`SECTOR_BYTES`] or [`LARGE_SECTOR_BYTES`].
    sector_bytes: u64,
    len: u64,
    /// The bytes that count against the disk's capacity.
    reserved: u64,
    chunks: Chunks,

    durable_len: u64,
    /// The durable content of every chunk that differs, or may differ, from what readers see.
    before: BTreeMap<u64, Option<Chunk>>,
    /// What was done since the last sync.
    pending: Vec<Pending>,
    /// A sync has failed: `before` holds chunks that nothing pending explains.
    diverged: bool,
}

/// How a write gets to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the system's cache, in whole pages.
    Cached,
    /// Past it, as it is.
    Direct,
}

#[derive(Debug)]
enum Pending {
    Write { offset: u64, bytes: Vec<u8>, way: Way },
    Len { len: u64 },
}

impl SimInode {
    pub(super) fn new(path: PathBuf, sector_bytes: u64) -> Self {
        Self {
            path,
            handles: 0,
            sector_bytes,
            len: 0,
            reserved: 0,
            chunks: Chunks::new(),
            durable_len: 0,
            before: BTreeMap::new(),
            pending: Vec::new(),
            diverged: false,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Where the sector of a place starts.
    pub(super) fn sector_before(&self, offset: u64) -> u64 {
        offset / self.sector_bytes * self.sector_bytes
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
        if end > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (number, within, range) in pieces(offset, buffer.len()) {
            let target = &mut buffer[range];
            match self.chunks.get(&number) {
                Some(chunk) => target.copy_from_slice(&chunk[within..within + target.len()]),
                None => target.fill(0),
            }
        }
        Ok(())
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64, way: Way) {
        if bytes.is_empty() {
            return;
        }
        self.remember(offset, bytes.len() as u64);
        copy_in(&mut self.chunks, bytes, offset);
        let end = offset + bytes.len() as u64;
        self.len = self.len.max(end);
        self.reserved = self.reserved.max(end);
        self.pending.push(Pending::Write { offset, bytes: bytes.to_vec(), way });
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.remember_from(len);
            cut_off(&mut self.chunks, len);
        }
        self.len = len;
        self.reserved = self.reserved.min(len);
        self.pending.push(Pending::Len { len });
    }

    pub(super) fn allocate(&mut self, len: u64) {
        if len > self.len {
            self.set_len(len);
        }
        self.reserved = self.reserved.max(len);
    }

    pub(super) fn sync(&mut self) {
        if self.diverged {
            // Only what was written since the failed sync reaches the disk now.
            for op in std::mem::take(&mut self.pending) {
                self.settle(&op, |_| true);
            }
            let chunks = &self.chunks;
            self.before.retain(|number, before| !same(before.as_ref(), chunks.get(number)));
            self.diverged = !self.before.is_empty();
        } else {
            self.before.clear();
            self.pending.clear();
        }
        self.durable_len = self.len;
    }

    /// A sync that failed: chance decides what reached the disk, readers go on seeing all of it.
    pub(super) fn fail_sync(&mut self, rng: &mut StdRng) {
        self.decide_pending(rng);
        self.diverged = true;
    }

    /// Loses what was not synced, by chance.
    pub(super) fn crash(&mut self, rng: &mut StdRng) {
        let in_part = self.written_in_part();
        self.decide_pending(rng);
        for number in in_part {
            if rng.random_range(0..4u8) == 0 {
                self.before.insert(number, Some(Box::new([rng.random(); CHUNK_BYTES])));
            }
        }
        self.len = self.durable_len;
        self.reserved = self.reserved.min(self.len);
        for (number, before) in std::mem::take(&mut self.before) {
            match before {
                Some(chunk) => drop(self.chunks.insert(number, chunk)),
                None => drop(self.chunks.remove(&number)),
            }
        }
        cut_off(&mut self.chunks, self.durable_len);
        self.handles = 0;
        self.diverged = false;
    }

    /// Changes durable and visible content alike, as wear or a person would.
    pub(super) fn damage(&mut self, offset: u64, change: impl Fn(u8) -> u8) {
        let (number, within) = (offset / CHUNK_BYTES as u64, (offset % CHUNK_BYTES as u64) as usize);
        let chunk = self.chunks.entry(number).or_insert_with(zeros);
        chunk[within] = change(chunk[within]);
        if let Some(before) = self.before.get_mut(&number) {
            let chunk = before.get_or_insert_with(zeros);
            chunk[within] = change(chunk[within]);
        }
    }

    /// Moves what is pending into the durable state, as far as chance lets it.
    fn decide_pending(&mut self, rng: &mut StdRng) {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        // Whole runs that survive or vanish are likely in the real world and unlikely write by write.
        let fate = rng.random_range(0..4u8);
        for op in &pending {
            let fate = if fate < 2 { fate } else { rng.random_range(0..4u8) };
            let count = op.sectors(self.sector_bytes);
            match fate {
                0 => self.settle(op, |_| true),
                1 => {}
                2 => {
                    let kept = rng.random_range(0..=count);
                    self.settle(op, |sector| sector < kept);
                }
                _ => {
                    let kept: Vec<bool> = (0..count).map(|_| rng.random()).collect();
                    self.settle(op, |sector| kept[sector as usize]);
                }
            }
        }
    }

    /// The sectors that writes past the cache have covered in part while something else was in them: the disk reads such a
    /// sector, changes it and writes it back. What goes through the cache is written in whole pages.
    fn written_in_part(&self) -> Vec<u64> {
        let mut found = Vec::new();
        for op in self.pending.iter().filter(|_| self.sector_bytes == LARGE_SECTOR_BYTES) {
            let Pending::Write { offset, bytes, way: Way::Direct } = op else { continue };
            let end = offset + bytes.len() as u64;
            for number in [offset / LARGE_SECTOR_BYTES, (end - 1) / LARGE_SECTOR_BYTES] {
                let (first, next) = (number * LARGE_SECTOR_BYTES, (number + 1) * LARGE_SECTOR_BYTES);
                if first < *offset || end < next.min(self.durable_len) {
                    found.push(number);
                }
            }
        }
        found
    }

    /// Makes the sectors of an operation durable that `keep` names, counted from its first.
    fn settle(&mut self, op: &Pending, keep: impl Fn(u64) -> bool) {
        match op {
            Pending::Len { len } if !keep(0) => _ = len,
            Pending::Len { len } => {
                for (number, before) in &mut self.before {
                    cut_chunk(before, *number, *len);
                }
                self.durable_len = *len;
            }
            Pending::Write { offset, bytes, .. } => {
                for (sector, range) in sectors(*offset, bytes.len(), self.sector_bytes) {
                    if !keep(sector) {
                        continue;
                    }
                    let (start, end) = (offset + range.start as u64, offset + range.end as u64);
                    let (number, within) = (start / CHUNK_BYTES as u64, (start % CHUNK_BYTES as u64) as usize);
                    // A write remembers every chunk that it touches, so there is one to settle into.
                    if let Some(before) = self.before.get_mut(&number) {
                        let chunk = before.get_or_insert_with(zeros);
                        chunk[within..within + range.len()].copy_from_slice(&bytes[range]);
                    }
                    self.durable_len = self.durable_len.max(end);
                }
            }
        }
    }

    fn remember(&mut self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (first, last) = (offset / CHUNK_BYTES as u64, (offset + len - 1) / CHUNK_BYTES as u64);
        for number in first..=last {
            let chunks = &self.chunks;
            self.before.entry(number).or_insert_with(|| chunks.get(&number).cloned());
        }
    }

    fn remember_from(&mut self, len: u64) {
        for (number, chunk) in self.chunks.range(len / CHUNK_BYTES as u64..) {
            self.before.entry(*number).or_insert_with(|| Some(chunk.clone()));
        }
    }
}

impl Pending {
    fn sectors(&self, sector_bytes: u64) -> u64 {
        match self {
            Pending::Len { .. } => 1,
            Pending::Write { offset, bytes, .. } => sectors(*offset, bytes.len(), sector_bytes).count() as u64,
        }
    }
}

fn zeros() -> Chunk {
    Box::new([0; CHUNK_BYTES])
}

fn same(a: Option<&Chunk>, b: Option<&Chunk>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b,
        (None, None) => true,
        (Some(chunk), None) | (None, Some(chunk)) => chunk.iter().all(|byte| *byte == 0),
    }
}

fn copy_in(chunks: &mut Chunks, bytes: &[u8], offset: u64) {
    for (number, within, range) in pieces(offset, bytes.len()) {
        let source = &bytes[range];
        chunks.entry(number).or_insert_with(zeros)[within..within + source.len()].copy_from_slice(source);
    }
}

fn cut_off(chunks: &mut Chunks, len: u64) {
    drop(chunks.split_off(&len.div_ceil(CHUNK_BYTES as u64)));
    let within = (len % CHUNK_BYTES as u64) as usize;
    if within > 0
        && let Some(chunk) = chunks.get_mut(&(len / CHUNK_BYTES as u64))
    {
        chunk[within..].fill(0);
    }
}

fn cut_chunk(chunk: &mut Option<Chunk>, number: u64, len: u64) {
    let start = number * CHUNK_BYTES as u64;
    if start >= len {
        *chunk = None;
    } else if let Some(chunk) = chunk
        && len - start < CHUNK_BYTES as u64
    {
        chunk[(len - start) as usize..].fill(0);
    }
}

/// The parts of a range that lie in one chunk each: the chunk's number, where the part starts within it, and where
/// its bytes are in the range.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    split(offset, len, CHUNK_BYTES as u64).map(move |range| {
        let at = offset + range.start as u64;
        (at / CHUNK_BYTES as u64, (at % CHUNK_BYTES as u64) as usize, range)
    })
}

/// The parts of a range that lie in one sector each, numbered from 0.
fn sectors(offset: u64, len: usize, sector_bytes: u64) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    (0..).zip(split(offset, len, sector_bytes))
}

fn split(offset: u64, len: usize, unit: u64) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == len {
            return None;
        }
        let room = (unit - (offset + start as u64) % unit) as usize;
        let end = len.min(start + room);
        let range = start..end;
        start = end;
        Some(range)
    })
}
