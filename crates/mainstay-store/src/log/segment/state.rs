use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result, time};

use super::activity::LogActivity;
use super::block::{Block, Gather};
use super::cache::BlockCache;
use super::file::{FILL_STEP_BYTES, Segment};
use super::format::align;
use super::index::{Index, Position};
use super::io_error::{refusal, stopped};
use super::options::LogOptions;
use super::record::{self, BATCH_HEADER_BYTES, MOVED_HEADER_BYTES};
use super::recovery::Recovered;
use super::room::{self, RoomNeed};
use super::space::LOOK_INTERVAL;
use crate::log::batch::{LogBatch, LogWrite};
use crate::log::group::check;
use crate::log::{Done, GroupId, Refused};

/// A block is ended at this size, so that no sync has to carry everything that waits.
const BLOCK_BYTES_MAX: usize = 4 << 20;
/// How far apart two entries may lie to be read at once.
const READ_GAP_BYTES: u32 = 512;
/// How much is read at once.
const READ_RUN_BYTES_MAX: u32 = 1 << 20;

/// How often the room on the disk is looked at, at least, while a segment is filled.
const LOOKS_PER_SEGMENT: u64 = 8;

/// Everything about the log that changes, under one lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) index: Index,
    /// All segments but the spare one, by number; the last is the one that batches are put into.
    pub(super) segments: BTreeMap<u32, Arc<Segment>>,
    pub(super) spare: Arc<Segment>,
    /// Where the log went on in the segment before the spare one when that came to be.
    fill_start: u64,
    /// How far the spare segment is to be zeroed by now.
    pub(super) fill_until: u64,
    /// Where the open block, or the next one, starts.
    end: u64,
    /// Blocks that wait to be written; batches are added to the last while it is open.
    queue: VecDeque<Gather>,
    /// The bytes that wait or are being written.
    queued_bytes: usize,
    cache: BlockCache,
    next_lsn: u64,
    pub(super) durable_lsn: u64,
    /// Segments that nothing needs any more, once the given batch is durable.
    pub(super) dead: VecDeque<(u32, u64)>,
    /// Why nothing is accepted any more.
    pub(super) failure: Option<String>,
    pub(super) closed: bool,
    /// The writer found nothing to do and waits to be woken.
    pub(super) idle: bool,
    /// The segments have changed since the segment cleaner looked last.
    pub(super) keep: bool,
    /// More of the spare segment is to be zeroed than when the segment cleaner looked last.
    pub(super) fill: bool,
    /// The disk is to be looked at.
    pub(super) look: bool,
    /// When it was looked at last, and what was written since.
    looked: time::Instant,
    unlooked_bytes: u64,
    pub(super) activity: LogActivity,
}

/// What a batch that has been taken in asks the caller to do once the lock is released.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Wakes {
    pub(super) writer: bool,
    pub(super) cleaner: bool,
}

/// An entry to read: from memory already, or still from a segment.
pub(super) enum Planned {
    Cached(Bytes),
    Stored(Arc<Segment>, Vec<Position>),
}

impl State {
    pub(super) fn new(recovered: Recovered, spare: Arc<Segment>) -> Self {
        let segments = recovered.segments.into_iter().map(|segment| (segment.number, segment)).collect();
        let mut state = Self {
            index: recovered.index,
            segments,
            spare,
            fill_start: recovered.end,
            fill_until: 0,
            end: recovered.end,
            queue: VecDeque::new(),
            queued_bytes: 0,
            cache: BlockCache::default(),
            next_lsn: recovered.next_lsn,
            durable_lsn: recovered.next_lsn - 1,
            dead: VecDeque::new(),
            failure: None,
            closed: false,
            idle: false,
            keep: true,
            fill: false,
            look: false,
            looked: time::now(),
            unlooked_bytes: 0,
            activity: LogActivity::default(),
        };
        state.find_dead();
        state
    }

    /// The segment that batches are put into.
    pub(super) fn active(&self) -> &Arc<Segment> {
        // There is always one: opening makes it, rotation adds one, and only those before the last are removed.
        self.segments.last_key_value().map_or(&self.spare, |(_, segment)| segment)
    }

    /// The bytes of all segments in use.
    pub(super) fn log_bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.len()).sum()
    }

    /// True if the log is over its size, and moving everything would make it half as long at most. So moving comes to an
    /// end: what it leaves behind is shorter than what it starts at.
    pub(super) fn is_wasteful(&self, options: &LogOptions) -> bool {
        let total = self.log_bytes();
        total > options.log_bytes_max
            && room::rewritten_bytes(
                self.index.carried_bytes(),
                self.index.moved_bytes(),
                options.segment_bytes,
                options.block_alignment,
            )
            .saturating_mul(2)
                < total
    }

    /// Takes a batch in: checks it, finds room for it, writes it into the open block and makes it visible.
    /// `new_spare` reserves the segment after the spare one when the log moves on to that.
    pub(super) fn submit(
        &mut self,
        batch: LogBatch,
        done: Done,
        options: &LogOptions,
        new_spare: impl FnOnce(u32, u64) -> Result<Segment>,
    ) -> Result<Wakes, Box<Refused>> {
        let size = batch.writes.iter().map(record::size_of).sum::<usize>();
        let cleaner = match self.admit(&batch, size, options, new_spare) {
            Ok(cleaner) => cleaner,
            Err(error) => return Err(Refused::new(error, batch, done)),
        };
        let gather = self.open_block();
        let (segment, base) = (gather.segment.number, gather.offset as u32);
        gather.begin_batch(size);
        let mut entries: Vec<Position> = Vec::new();
        for write in &batch.writes {
            record::encode(write, &mut gather.buffer, |at, bytes| {
                entries.push(Position {
                    segment,
                    offset: base + at as u32,
                    len: bytes.len() as u32,
                    checksum: crc32c::crc32c(bytes),
                });
            });
        }
        gather.end_batch(Some(done));
        self.queued_bytes += size + BATCH_HEADER_BYTES;
        self.next_lsn += 1;
        self.apply(batch, entries);
        Ok(Wakes { writer: std::mem::take(&mut self.idle), cleaner })
    }

    /// Checks a batch and makes room for it. True if the cleaner is to look.
    fn admit(
        &mut self,
        batch: &LogBatch,
        size: usize,
        options: &LogOptions,
        new_spare: impl FnOnce(u32, u64) -> Result<Segment>,
    ) -> Result<bool> {
        self.check_open()?;
        if size > options.batch_bytes_max {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("batch of {size} bytes exceeds batch_bytes_max of {}: split it", options.batch_bytes_max),
            ));
        }
        self.check_queue(size, options)?;
        check(batch, &self.index.groups)?;
        self.make_room(size, claim_of(batch), options, new_spare)
    }

    fn apply(&mut self, batch: LogBatch, entries: Vec<Position>) {
        let mut entries = entries.into_iter();
        let mut drops = false;
        for write in batch.writes {
            match write {
                LogWrite::Append { entries, .. } if entries.is_empty() => {}
                LogWrite::Append { group, first, entries: appended } => {
                    self.index.append(group, first, entries.by_ref().take(appended.len()));
                }
                LogWrite::HardState { group, state } => {
                    // The caller's bytes may be a small part of something large.
                    self.index.hard_state(group, Bytes::copy_from_slice(&state));
                }
                LogWrite::Truncate { group, from } => {
                    drops = true;
                    self.index.truncate(group, from);
                }
                LogWrite::Compact { group, through, mark } => {
                    drops = true;
                    self.index.compact(group, through, Bytes::copy_from_slice(&mark));
                }
                LogWrite::Remove { group } => {
                    drops = true;
                    self.index.remove(group);
                }
            }
        }
        if drops {
            self.find_dead();
        }
    }

    fn check_open(&self) -> Result<()> {
        match &self.failure {
            Some(cause) => Err(stopped(cause)),
            None if self.closed => Err(Error::fatal("the node log was closed: open it anew")),
            None => Ok(()),
        }
    }

    fn check_queue(&self, size: usize, options: &LogOptions) -> Result<()> {
        if self.queued_bytes > 0 && self.queued_bytes.saturating_add(size) > options.queue_bytes_max {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "{} bytes wait to become durable, and queue_bytes_max is {}: slow down and retry",
                    self.queued_bytes, options.queue_bytes_max
                ),
            ));
        }
        Ok(())
    }

    /// Sees to it that a batch fits into the open block, or one that can be opened; says whether segments changed.
    fn make_room(
        &mut self,
        size: usize,
        need: RoomNeed,
        options: &LogOptions,
        new_spare: impl FnOnce(u32, u64) -> Result<Segment>,
    ) -> Result<bool> {
        if self.queue.back().is_some_and(|gather| gather.buffer.len() + size > BLOCK_BYTES_MAX) {
            self.close_block();
        }
        let active = self.active();
        let alignment = active.alignment();
        let needed = match self.queue.back().filter(|gather| !gather.closed) {
            Some(gather) => align((gather.buffer.len() + BATCH_HEADER_BYTES + size) as u64, alignment),
            None => Gather::bytes_for(size, alignment),
        };
        let fits = needed <= room::room_for(RoomNeed::Entries, active.len(), self.end, alignment);
        // A segment of an earlier version, or of a disk with smaller sectors, is left behind.
        let is_outdated = alignment < options.block_alignment;
        if fits && !is_outdated {
            return Ok(false);
        }
        if self.end == active.start() && self.queue.is_empty() && !is_outdated {
            // The first segment of all, still empty: it becomes as long as its first batch needs it to be.
            let len = room::with_reserve(self.end + needed, alignment);
            return active.grow(len).map(|()| false).map_err(|error| refusal("grow", &active.path, error));
        }
        let room = room::room_for(need, active.len(), self.end, alignment);
        match self.rotate(size, options, new_spare) {
            Ok(()) => Ok(true),
            Err(_) if fits => Ok(false),
            Err(error) if error.kind() == ErrorKind::StorageFull && need != RoomNeed::Entries && needed <= room => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Moves on to the spare segment, which begins with what is known of all groups. Changes nothing if the disk has
    /// no room for the next spare one, or for a batch that is larger than a segment.
    fn rotate(
        &mut self,
        size: usize,
        options: &LogOptions,
        new_spare: impl FnOnce(u32, u64) -> Result<Segment>,
    ) -> Result<()> {
        let mut carried = Vec::new();
        self.index.carries().for_each(|carry| record::encode_carry(&mut carried, &carry));
        debug_assert_eq!(carried.len(), self.index.carried_bytes());
        let spare = Arc::clone(&self.spare);
        let usual = spare.created_len().min(options.segment_bytes);
        let length = room::new_length(carried.len(), size, usual, spare.alignment())?;
        let number = spare.number.checked_add(1).ok_or_else(|| Error::fatal("the node log has no segment left"))?;
        let grown = spare.grow(length.wanted).or_else(|_| spare.grow(length.needed));
        grown.map_err(|error| refusal("grow", &spare.path, error))?;
        let next_spare = new_spare(number, options.length_after(spare.created_len()))?;
        self.close_block();
        self.end = spare.start();
        self.segments.insert(spare.number, spare);
        self.spare = Arc::new(next_spare);
        (self.fill_start, self.fill_until) = (self.end, 0);
        self.keep = true;

        let gather = self.open_block();
        gather.begin_batch(carried.len());
        gather.buffer.extend_from_slice(&carried);
        gather.end_batch(None);
        self.queued_bytes += carried.len() + BATCH_HEADER_BYTES;
        self.next_lsn += 1;
        self.find_dead();
        Ok(())
    }

    /// The block that batches are added to.
    fn open_block(&mut self) -> &mut Gather {
        if self.queue.back().is_none_or(|gather| gather.closed) {
            let gather = Gather::new(Arc::clone(self.active()), self.end, self.next_lsn);
            self.queue.push_back(gather);
        }
        let last = self.queue.len() - 1;
        &mut self.queue[last]
    }

    /// Ends the open block, if there is one.
    fn close_block(&mut self) {
        if let Some(gather) = self.queue.back_mut().filter(|gather| !gather.closed) {
            gather.closed = true;
            self.end = gather.offset + align(gather.buffer.len() as u64, gather.segment.alignment());
        }
    }

    /// Takes the next block to write.
    pub(super) fn take_block(&mut self) -> Option<Block> {
        if self.queue.len() == 1 {
            self.close_block();
        }
        let block = self.queue.pop_front()?.seal();
        let offset = block.offset as u32;
        self.cache.push(block.segment.number, offset, block.last_lsn, block.bytes.clone(), block.cost);
        Some(block)
    }

    /// True if the writer has something to do, or to end for.
    pub(super) fn has_news(&self) -> bool {
        !self.queue.is_empty() || self.closed || self.failure.is_some()
    }

    /// How many batches wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.iter().map(|gather| gather.dones.len()).sum()
    }

    /// Notes that a block is durable; says whether the segment cleaner has something to do. `look_bytes` may be written between two looks
    /// at the disk.
    pub(super) fn finish_block(&mut self, block: &Block, options: &LogOptions, look_bytes: u64) -> bool {
        let now = time::now();
        self.durable_lsn = block.last_lsn;
        self.activity.flushes += 1;
        self.activity.bytes += block.bytes.len() as u64;
        self.activity.timings.record(now.saturating_duration_since(block.taken));
        self.queued_bytes = self.queued_bytes.saturating_sub(block.content_bytes);
        self.cache.shrink(options.cache_bytes_max, self.durable_lsn);
        let removable = self.dead.front().is_some_and(|(_, lsn)| *lsn <= self.durable_lsn);
        self.keep |= removable;
        self.raise_fill();
        self.unlooked_bytes += block.bytes.len() as u64;
        // Several times in a segment: the next one needs room when this one is full.
        let look_bytes = look_bytes.min(self.active().len() / LOOKS_PER_SEGMENT);
        self.look |= self.unlooked_bytes > look_bytes || now.saturating_duration_since(self.looked) >= LOOK_INTERVAL;
        self.keep || self.fill || self.look
    }

    /// Notes that the disk is looked at.
    pub(super) fn looks(&mut self) {
        (self.look, self.looked, self.unlooked_bytes) = (false, time::now(), 0);
    }

    /// Lets the spare segment be zeroed twice as fast as what was left of the one before it fills: it is done in good time, and
    /// what is written meanwhile is not held up by all of it at once.
    fn raise_fill(&mut self) {
        let (len, left) = (self.spare.len(), self.active().len().saturating_sub(self.fill_start).max(1));
        // A segment has less than 2^32 bytes, or what a batch needs beyond.
        let due = u128::from(2 * self.end.saturating_sub(self.fill_start)) * u128::from(len) / u128::from(left);
        let due = u64::try_from(due).map_or(len, |due| due.min(len)).next_multiple_of(FILL_STEP_BYTES as u64).min(len);
        if due > self.fill_until {
            self.fill_until = due;
            self.fill = true;
        }
    }

    /// Stops the log; returns who waits in vain.
    pub(super) fn fail(&mut self, cause: String) -> Vec<Done> {
        self.failure.get_or_insert(cause);
        self.queue.iter_mut().flat_map(|gather| std::mem::take(&mut gather.dones)).collect()
    }

    /// Lists the segments from the oldest on that no entry is left in. They may go once what emptied them is durable.
    fn find_dead(&mut self) {
        let active = self.active().number;
        let known = self.dead.back().map(|(number, _)| *number);
        let lsn = self.next_lsn.saturating_sub(1);
        for number in self.segments.keys().copied() {
            if known.is_some_and(|known| number <= known) {
                continue;
            }
            if number == active || self.index.tally(number).entries > 0 {
                break;
            }
            self.dead.push_back((number, lsn));
        }
    }

    /// Puts entries that were read from an old segment into the open block; those that have changed since stay out.
    pub(super) fn move_entries(
        &mut self,
        entries: &[(GroupId, u64, Position, Bytes)],
        options: &LogOptions,
        new_spare: impl FnOnce(u32, u64) -> Result<Segment>,
    ) -> Result<Wakes> {
        self.check_open()?;
        let still: Vec<_> =
            entries.iter().filter(|(group, index, old, _)| self.index.entry(*group, *index) == Some(*old)).collect();
        let size = still.iter().map(|(.., bytes)| MOVED_HEADER_BYTES + bytes.len()).sum();
        self.check_queue(size, options)?;
        let cleaner = self.make_room(size, RoomNeed::Entries, options, new_spare)?;
        let gather = self.open_block();
        let (segment, base) = (gather.segment.number, gather.offset as u32);
        gather.begin_batch(size);
        let mut moved = Vec::with_capacity(still.len());
        for (group, index, old, bytes) in still {
            let at = record::encode_moved(&mut gather.buffer, *group, *index, bytes);
            moved.push((*group, *index, Position { segment, offset: base + at as u32, ..*old }));
        }
        gather.end_batch(None);
        self.queued_bytes += size + BATCH_HEADER_BYTES;
        self.next_lsn += 1;
        for (group, index, position) in moved {
            self.index.relocate(group, index, position);
        }
        self.find_dead();
        Ok(Wakes { writer: std::mem::take(&mut self.idle), cleaner })
    }

    /// Finds the entries of a range: their bytes where they are in memory, their places where not.
    pub(super) fn plan_read(&self, id: GroupId, range: &Range<u64>, bytes_max: usize) -> Result<Vec<Planned>> {
        let Some(group) = self.index.groups.get(&id) else { return Ok(Vec::new()) };
        let mut planned: Vec<Planned> = Vec::new();
        let mut bytes = 0usize;
        for position in group.range(id, range)? {
            bytes = bytes.saturating_add(position.len as usize);
            if bytes > bytes_max && !planned.is_empty() {
                break;
            }
            if let Some(cached) = self.in_memory(*position) {
                planned.push(Planned::Cached(cached));
                continue;
            }
            if let Some(Planned::Stored(segment, run)) = planned.last_mut()
                && segment.number == position.segment
                && follows(run, position)
            {
                run.push(*position);
                continue;
            }
            let Some(segment) = self.segments.get(&position.segment) else {
                return Err(Error::fatal(format!("segment {} of the node log is not open", position.segment)));
            };
            planned.push(Planned::Stored(Arc::clone(segment), vec![*position]));
        }
        Ok(planned)
    }

    fn in_memory(&self, position: Position) -> Option<Bytes> {
        let place = (position.segment, u64::from(position.offset));
        // What waits is newer than what is cached.
        if let Some(first) = self.queue.front()
            && place >= (first.segment.number, first.offset)
        {
            let after = self.queue.partition_point(|gather| (gather.segment.number, gather.offset) <= place);
            return self.queue.get(after.checked_sub(1)?)?.entry(position);
        }
        self.cache.get(position)
    }
}

fn claim_of(batch: &LogBatch) -> RoomNeed {
    if batch.has_entries() {
        RoomNeed::Entries
    } else if batch.only_drops() {
        RoomNeed::Drops
    } else {
        RoomNeed::Small
    }
}

fn follows(run: &[Position], position: &Position) -> bool {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
    let Some(gap) = position.offset.checked_sub(last.offset.saturating_add(last.len)) else { return false };
    gap <= READ_GAP_BYTES && position.offset - first.offset + position.len <= READ_RUN_BYTES_MAX
}
