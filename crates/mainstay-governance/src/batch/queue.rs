use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::BatchSettings;
use super::cell::{Cell, PendingReply};

/// Up to how many items are written as one batch, if they can be; the callers of more have enough to do meanwhile.
const CROWD_MAX: usize = 256;

/// How long a few items may wait for those who are in flight, so as to go together with what comes then.
const PATIENCE: Duration = Duration::from_millis(5);

/// What waits to be written: pure bookkeeping, without tasks and without waiting. The executor has it behind a lock.
pub(super) struct Queue<T, R> {
    items_max: usize,
    bytes_max: usize,
    linger: Duration,
    lanes: usize,
    waiting_items_max: usize,
    waiting_bytes_max: usize,
    /// The batch that is being gathered; `None` if it has no item yet.
    open: Option<Batch<T, R>>,
    /// Batches that gather no more, in their order.
    sealed: VecDeque<Batch<T, R>>,
    next_number: u64,
    /// Batches that are being written, by number.
    in_flight: BTreeMap<u64, Flying<R>>,
    /// How many items they have together.
    flying: usize,
    /// True while the watchdog has a timer, and need not be called.
    is_watched: bool,
    /// How large the last batch was: how large the next may be expected to become.
    expected: usize,
    /// How many items there may be when those are back who were answered since a batch began last.
    crowd: usize,
    items: usize,
    bytes: usize,
    /// Lanes that sleep.
    pub(super) idle: usize,
    /// True from the wake-up of a lane until one is awake.
    pub(super) is_signalled: bool,
    pub(super) phase: Phase,
}

/// How far an executor has come in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Takes nothing more, and writes what is there.
    Closing,
    /// Takes nothing more, and writes nothing more.
    Abandoned,
}

/// Items that are written together.
pub(super) struct Batch<T, R> {
    pub(super) number: u64,
    pub(super) items: Vec<T>,
    pub(super) bytes: usize,
    pub(super) cell: Arc<Cell<R>>,
    since: Instant,
    /// When it is written at the latest, if somebody is free.
    due: Option<Instant>,
}

/// A batch that is being written.
pub(super) struct Flying<R> {
    pub(super) cell: Arc<Cell<R>>,
    pub(super) items: usize,
    /// When whoever writes it counts as stuck; `None` between two tries.
    stuck_at: Option<Instant>,
}

/// What a lane is to do next.
pub(super) enum Next<T, R> {
    Write(Batch<T, R>),
    SleepUntil(Instant),
    Sleep,
    End,
}

impl<T, R> Queue<T, R> {
    pub(super) fn new(settings: &BatchSettings) -> Self {
        Self {
            items_max: settings.items_max,
            bytes_max: settings.bytes_max.unwrap_or(usize::MAX),
            linger: settings.linger,
            lanes: settings.in_flight_max,
            waiting_items_max: settings.waiting_items_max,
            waiting_bytes_max: settings.waiting_bytes_max.unwrap_or(usize::MAX),
            open: None,
            sealed: VecDeque::new(),
            next_number: 0,
            in_flight: BTreeMap::new(),
            flying: 0,
            is_watched: false,
            expected: 0,
            crowd: 0,
            items: 0,
            bytes: 0,
            idle: 0,
            is_signalled: false,
            phase: Phase::Open,
        }
    }

    /// Puts an item into the batch that gathers. True if a lane has something to do because of it.
    pub(super) fn push(&mut self, item: T, bytes: usize) -> (PendingReply<R>, bool) {
        if self.open.as_ref().is_some_and(|open| open.bytes.saturating_add(bytes) > self.bytes_max) {
            self.seal();
        }
        let open = self.open.get_or_insert_with(|| {
            let number = self.next_number;
            self.next_number += 1;
            let since = Instant::now();
            Batch {
                number,
                items: Vec::with_capacity(self.expected),
                bytes: 0,
                cell: Arc::new(Cell::new(self.expected)),
                since,
                due: (!self.linger.is_zero()).then(|| since + self.linger),
            }
        });
        let ticket = PendingReply { cell: open.cell.clone(), place: open.items.len() };
        open.items.push(item);
        open.bytes = open.bytes.saturating_add(bytes);
        self.items += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let (is_first, is_lingering) = (ticket.place == 0, open.due.is_some());
        let (items, bytes) = (open.items.len(), open.bytes);
        if items >= self.items_max || bytes >= self.bytes_max || (self.goes_in_halves() && 2 * items >= self.crowd) {
            self.seal();
        }
        (ticket, is_first || !(is_lingering || self.is_held_back()) || !self.sealed.is_empty())
    }

    /// Lets the batch that gathers gather no more.
    pub(super) fn seal(&mut self) {
        self.sealed.extend(self.open.take());
    }

    /// True if those who have just been answered are not back yet: they are woken one after the other, and whoever came first
    /// would be written alone. A large crowd is left in two halves, so that one prepares its items while the other is
    /// written.
    pub(super) fn expects_company(&self) -> bool {
        let gathers = self.open.as_ref().is_some_and(|open| open.due.is_none()) && self.sealed.is_empty();
        let expected = if self.crowd > CROWD_MAX { self.crowd / 2 } else { self.crowd }.min(self.items_max);
        gathers && self.items < expected && self.phase == Phase::Open
    }

    /// True if those who have just been answered are to come in two batches: two lanes are free, and one sends while the other
    /// one has the server sync. Further ones would only be smaller.
    fn goes_in_halves(&self) -> bool {
        let is_idle = self.in_flight.is_empty() && self.sealed.is_empty();
        self.lanes > 1 && is_idle && self.crowd > 1 && self.linger.is_zero()
    }

    /// True if what gathers is little beside what is in flight: a batch of few items costs about as much as one of many, so
    /// that with as many small batches as there are lanes everybody would wait longer.
    fn is_held_back(&self) -> bool {
        let gathered = self.open.as_ref().map_or(0, |open| open.items.len());
        // For the last ones that there is room for it would wait in vain.
        let has_room = self.items < self.waiting_items_max && self.bytes < self.waiting_bytes_max / 2;
        4 * gathered < 3 * self.flying && has_room && self.phase == Phase::Open
    }

    /// What is to be written next, in order.
    pub(super) fn next(&mut self) -> Next<T, R> {
        self.is_signalled = false;
        if self.sealed.is_empty()
            && let Some(open) = &self.open
        {
            match open.due.or_else(|| self.is_held_back().then(|| open.since + PATIENCE)) {
                Some(due) if due > Instant::now() => return Next::SleepUntil(due),
                _ => self.seal(),
            }
        }
        match self.sealed.pop_front() {
            Some(batch) => {
                let flying = Flying { cell: batch.cell.clone(), items: batch.items.len(), stuck_at: None };
                self.flying += flying.items;
                self.in_flight.insert(batch.number, flying);
                self.items -= batch.items.len();
                self.bytes -= batch.bytes;
                self.expected = batch.items.len();
                self.crowd = 0;
                Next::Write(batch)
            }
            None if self.phase == Phase::Open => Next::Sleep,
            None => Next::End,
        }
    }

    /// True if a lane would find something to write, or something to wait for.
    pub(super) fn has_more(&self) -> bool {
        !self.sealed.is_empty() || self.open.is_some()
    }

    /// The callers of so many items are about to be answered.
    pub(super) fn answers(&mut self, items: usize) {
        self.crowd = self.items + items;
    }

    /// A batch has been written, or has failed.
    pub(super) fn ended(&mut self, number: u64) -> Option<Flying<R>> {
        let flying = self.in_flight.remove(&number)?;
        self.flying -= flying.items;
        Some(flying)
    }

    /// A try to write a batch begins, and counts as stuck at some time. True if the watchdog is to be called.
    pub(super) fn try_begins(&mut self, number: u64, stuck_at: Instant) -> bool {
        if let Some(flying) = self.in_flight.get_mut(&number) {
            flying.stuck_at = Some(stuck_at);
        }
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// A try to write a batch has ended. False if it was given up before.
    pub(super) fn try_ends(&mut self, number: u64) -> bool {
        let flying = self.in_flight.get_mut(&number);
        flying.map(|flying| flying.stuck_at = None).is_some()
    }

    /// Takes out the batches whose writers are stuck, and says when to look again; never if nothing is being written.
    pub(super) fn look_after(&mut self, now: Instant) -> (Vec<Flying<R>>, Option<Instant>) {
        let is_stuck = |flying: &Flying<R>| flying.stuck_at.is_some_and(|stuck_at| stuck_at <= now);
        let numbers = self.in_flight.iter().filter(|(_, flying)| is_stuck(flying)).map(|(number, _)| *number);
        let numbers: Vec<_> = numbers.collect();
        let stuck = numbers.iter().filter_map(|number| self.ended(*number)).collect();
        let next = self.in_flight.values().filter_map(|flying| flying.stuck_at).min();
        self.is_watched = next.is_some();
        (stuck, next)
    }

    /// Takes out everything that has not begun.
    pub(super) fn drain(&mut self) -> Vec<Batch<T, R>> {
        self.seal();
        self.items = 0;
        self.bytes = 0;
        self.sealed.drain(..).collect()
    }

    /// The number that the next batch will have: all before it have what was accepted so far.
    pub(super) fn horizon(&self) -> u64 {
        self.next_number
    }

    /// The lowest number of a batch that has not ended.
    pub(super) fn unfinished(&self) -> u64 {
        let waiting = self.sealed.front().or(self.open.as_ref()).map(|batch| batch.number);
        let written = self.in_flight.first_key_value().map(|(number, _)| *number);
        waiting.into_iter().chain(written).min().unwrap_or(self.next_number)
    }

    pub(super) fn items(&self) -> usize {
        self.items
    }
}
