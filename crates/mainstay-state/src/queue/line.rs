use std::collections::BTreeMap;
use std::fmt;
use std::task::{Context, Poll, Waker};

use mainstay_core::{Error, Result};
use parking_lot::Mutex;

use super::place::Place;
use super::supply::{Item, Supply};
use super::wait_list::{Signal, Ticket, WaitList};
use crate::collection::Handle;
use crate::layout;
use crate::lock::TransactionId;

/// What is known of a queue besides the store: which items are free, which transactions have taken or brought some, and
/// who waits for an item or for room. Shared by all handles of the queue, for one epoch.
///
/// An item that is granted and a place that is reserved are always in exactly one hand: the line, a [`Grant`] of one who
/// waits or has waited, or the [`Visit`] of a transaction. Each gives them back if it ends too early.
#[derive(Default)]
pub(crate) struct Line {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    supply: Supply,
    visits: BTreeMap<TransactionId, Visit>,
    consumers: WaitList<Ask, Grant>,
    producers: WaitList<Ask, Grant>,
    /// By how many items the transactions under way make the queue longer if all of them are committed that do so.
    reserved: u64,
    /// No fewer than are committed and reserved together: so that the length is read only when this says that the queue
    /// is full.
    filled_at_most: Option<u64>,
}

/// What a transaction under way has done with a queue.
#[derive(Default)]
struct Visit {
    taken: Vec<Place>,
    enqueued: u64,
    /// Whether it has cleared the queue since it took what it has taken.
    has_cleared: bool,
    /// Whether the transaction tells when it ends.
    has_ending: bool,
    /// Where it has waited last. The place is left when the wait ends; if that was forgotten, it is still there.
    waiting: Option<(Side, Ticket)>,
}

impl Visit {
    /// By how many items the transaction makes the queue longer.
    fn growth(&self) -> u64 {
        self.enqueued.saturating_sub(self.left())
    }

    /// How many items it takes out of the queue, as far as they leave room for others.
    fn left(&self) -> u64 {
        // What it has taken is gone by the clear anyway.
        if self.has_cleared { 0 } else { self.taken.len() as u64 }
    }
}

/// What somebody wants of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ask {
    /// The first item.
    Item,
    /// Room for one more.
    Room {
        /// Who enqueues it.
        transaction: TransactionId,
        /// How many the queue may hold.
        capacity: u64,
    },
}

impl Ask {
    fn side(self) -> Side {
        match self {
            Ask::Item => Side::Consumers,
            Ask::Room { .. } => Side::Producers,
        }
    }
}

/// The two ends of a queue that one can wait at.
#[derive(Clone, Copy)]
enum Side {
    Consumers,
    Producers,
}

/// What somebody has got of a queue.
#[derive(Debug)]
pub(super) enum Grant {
    /// An item that nobody else gets.
    Item(Item),
    /// Room that is counted as taken by a transaction.
    Room(TransactionId),
}

/// Who wanted something has it, or waits for it.
pub(super) enum Answer {
    Granted(Grant),
    /// The transaction must tell when it ends, if it does not do so anyway.
    Waiting {
        ticket: Ticket,
        needs_ending: bool,
    },
}

impl Line {
    /// The first item, which stays where it is.
    pub(crate) fn first(&self, queue: &Handle) -> Result<Option<Item>> {
        self.inner.lock().supply.first(queue)
    }

    /// Grants what is asked for if it is there and nobody waits for it.
    pub(super) fn try_grant(&self, queue: &Handle, ask: Ask) -> Result<Option<Grant>> {
        self.change(|inner, wakers| inner.try_grant(queue, ask, wakers))
    }

    /// Grants a transaction what it asks for, or begins to wait for it behind all who do so already.
    pub(super) fn grant_or_wait(&self, queue: &Handle, transaction: TransactionId, ask: Ask) -> Result<Answer> {
        self.change(|inner, wakers| {
            inner.end_wait(transaction, wakers);
            if let Some(grant) = inner.try_grant(queue, ask, wakers)? {
                return Ok(Answer::Granted(grant));
            }
            let ticket = inner.list(ask.side()).join(ask);
            let needs_ending = inner.needs_ending(transaction);
            inner.visits.entry(transaction).or_default().waiting = Some((ask.side(), ticket));
            Ok(Answer::Waiting { ticket, needs_ending })
        })
    }

    /// Gives everybody who waits what is there by now.
    pub(super) fn serve(&self, queue: &Handle) -> Result<()> {
        self.change(|inner, wakers| inner.serve(queue, wakers))
    }

    pub(super) fn poll(&self, ask: Ask, ticket: Ticket, context: &Context<'_>) -> Poll<Signal> {
        let (poll, _unused) = {
            let mut inner = self.inner.lock();
            inner.list(ask.side()).poll(ticket, context)
        };
        poll
    }

    /// Ends a wait: what was granted, if anything was.
    pub(super) fn leave(&self, ask: Ask, ticket: Ticket) -> Option<Grant> {
        let (grant, _unused) = {
            let mut inner = self.inner.lock();
            inner.list(ask.side()).leave(ticket)
        };
        grant
    }

    /// Takes back what was granted.
    pub(super) fn take_back(&self, queue: &Handle, grant: Grant) {
        self.change(|inner, wakers| {
            inner.take_back(grant);
            inner.serve_or_call(queue, wakers);
        });
    }

    /// Whether an item that was granted a while ago is still there.
    pub(super) fn confirm(&self, queue: &Handle, item: &mut Item) -> Result<bool> {
        self.inner.lock().supply.confirm(queue, item)
    }

    /// A transaction dequeues an item that was granted to it; true if it must tell when it ends.
    pub(super) fn keep_item(&self, transaction: TransactionId, place: Place) -> bool {
        let mut inner = self.inner.lock();
        inner.visit(transaction, |visit| visit.taken.push(place));
        inner.needs_ending(transaction)
    }

    /// A transaction enqueues an item where it was granted room; true if it must tell when it ends.
    pub(crate) fn keep_room(&self, transaction: TransactionId) -> bool {
        self.inner.lock().needs_ending(transaction)
    }

    /// A transaction enqueues an item without asking for room: it has cleared the queue.
    pub(crate) fn reserve(&self, transaction: TransactionId) {
        self.inner.lock().visit(transaction, |visit| visit.enqueued += 1);
    }

    /// A transaction has dequeued an item that it has enqueued itself.
    pub(crate) fn give_room(&self, queue: &Handle, transaction: TransactionId) {
        self.take_back(queue, Grant::Room(transaction));
    }

    /// By how many items a transaction makes the queue longer.
    pub(crate) fn growth_by(&self, transaction: TransactionId) -> u64 {
        self.inner.lock().visits.get(&transaction).map_or(0, Visit::growth)
    }

    /// A transaction was committed.
    pub(super) fn committed(&self, queue: &Handle, transaction: TransactionId) {
        self.change(|inner, wakers| {
            inner.end_visit(transaction, wakers);
            inner.serve_or_call(queue, wakers);
        });
    }

    /// A transaction was undone, or nobody knows.
    pub(super) fn undone(&self, queue: &Handle, transaction: TransactionId) {
        self.change(|inner, wakers| {
            let visit = inner.end_visit(transaction, wakers);
            inner.supply.put_back_unseen(visit.taken);
            inner.serve_or_call(queue, wakers);
        });
    }

    /// A transaction clears the queue: what it has enqueued so far is gone too.
    pub(super) fn clearing(&self, transaction: TransactionId) {
        let mut inner = self.inner.lock();
        inner.visit(transaction, |visit| {
            visit.enqueued = 0;
            visit.has_cleared = true;
        });
    }

    /// A transaction that has cleared the queue has ended, one way or the other.
    pub(super) fn cleared(&self, queue: &Handle) {
        self.change(|inner, wakers| {
            inner.supply.doubt();
            inner.filled_at_most = None;
            inner.serve_or_call(queue, wakers);
        });
    }

    /// Lets all who wait see for themselves what has become of the queue.
    pub(crate) fn call_all(&self) {
        self.change(|inner, wakers| inner.call_all(wakers));
    }

    /// Changes something, and then wakes those who can go on: that may run anything, so no lock is held.
    fn change<R>(&self, change: impl FnOnce(&mut Inner, &mut Vec<Waker>) -> R) -> R {
        let mut wakers = Vec::new();
        let outcome = change(&mut self.inner.lock(), &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        outcome
    }
}

impl Inner {
    fn list(&mut self, side: Side) -> &mut WaitList<Ask, Grant> {
        match side {
            Side::Consumers => &mut self.consumers,
            Side::Producers => &mut self.producers,
        }
    }

    fn try_grant(&mut self, queue: &Handle, ask: Ask, wakers: &mut Vec<Waker>) -> Result<Option<Grant>> {
        // Who takes no room from those who wait need not wait behind them.
        if self.list(ask.side()).is_empty() || self.replaces(ask) {
            return self.fulfil(queue, ask);
        }
        self.serve(queue, wakers)?;
        if self.list(ask.side()).is_empty() { self.fulfil(queue, ask) } else { Ok(None) }
    }

    fn fulfil(&mut self, queue: &Handle, ask: Ask) -> Result<Option<Grant>> {
        match ask {
            Ask::Item => Ok(self.supply.take(queue)?.map(Grant::Item)),
            Ask::Room { transaction, capacity } => {
                if !self.replaces(ask) && !self.has_room(queue, capacity)? {
                    return Ok(None);
                }
                self.visit(transaction, |visit| visit.enqueued += 1);
                Ok(Some(Grant::Room(transaction)))
            }
        }
    }

    /// Whether an item is enqueued by a transaction that has dequeued another one for it.
    fn replaces(&self, ask: Ask) -> bool {
        let Ask::Room { transaction, .. } = ask else { return false };
        self.visits.get(&transaction).is_some_and(|visit| visit.enqueued < visit.left())
    }

    fn has_room(&mut self, queue: &Handle, capacity: u64) -> Result<bool> {
        if self.filled_at_most.is_none_or(|filled| filled >= capacity) {
            // What is committed and has not ended counts twice, until it has.
            self.filled_at_most = Some(committed_len(queue)?.saturating_add(self.reserved));
        }
        Ok(self.filled_at_most.is_some_and(|filled| filled < capacity))
    }

    fn serve(&mut self, queue: &Handle, wakers: &mut Vec<Waker>) -> Result<()> {
        for side in [Side::Consumers, Side::Producers] {
            while let Some(ask) = self.list(side).front().copied() {
                let Some(grant) = self.fulfil(queue, ask)? else { break };
                wakers.extend(self.list(side).grant(grant));
            }
        }
        Ok(())
    }

    /// Serves those who wait, who hear of what goes wrong with that by themselves.
    fn serve_or_call(&mut self, queue: &Handle, wakers: &mut Vec<Waker>) {
        if let Err(error) = self.serve(queue, wakers) {
            tracing::debug!(queue = %queue.known, %error, "those who wait for a queue could not be served");
            self.call_all(wakers);
        }
    }

    fn call_all(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.consumers.call_all());
        wakers.extend(self.producers.call_all());
    }

    /// Changes what a transaction has done, and counts the room that it needs.
    fn visit(&mut self, transaction: TransactionId, change: impl FnOnce(&mut Visit)) {
        let visit = self.visits.entry(transaction).or_default();
        let before = visit.growth();
        change(visit);
        let after = visit.growth();
        if !visit.has_ending && visit.enqueued == 0 && visit.taken.is_empty() {
            self.visits.remove(&transaction);
        }
        self.reserved = self.reserved + after - before;
        if let Some(filled) = &mut self.filled_at_most {
            *filled = filled.saturating_add(after.saturating_sub(before));
        }
    }

    fn needs_ending(&mut self, transaction: TransactionId) -> bool {
        let visit = self.visits.entry(transaction).or_default();
        !std::mem::replace(&mut visit.has_ending, true)
    }

    fn end_visit(&mut self, transaction: TransactionId, wakers: &mut Vec<Waker>) -> Visit {
        self.end_wait(transaction, wakers);
        let visit = self.visits.remove(&transaction).unwrap_or_default();
        self.reserved -= visit.growth();
        visit
    }

    /// Ends the wait of a transaction, if there is one of a future that was forgotten instead of dropped: a transaction does one
    /// thing at a time.
    fn end_wait(&mut self, transaction: TransactionId, wakers: &mut Vec<Waker>) {
        let waiting = self.visits.get_mut(&transaction).and_then(|visit| visit.waiting.take());
        let Some((side, ticket)) = waiting else { return };
        let (grant, waker) = self.list(side).leave(ticket);
        wakers.extend(waker);
        if let Some(grant) = grant {
            self.take_back(grant);
        }
    }

    fn take_back(&mut self, grant: Grant) {
        match grant {
            Grant::Item(item) => self.supply.put_back(item),
            Grant::Room(transaction) => self.visit(transaction, |visit| {
                // Nothing is left of a visit that was ended by a deadlock.
                visit.enqueued = visit.enqueued.saturating_sub(1);
            }),
        }
    }
}

/// How many items are committed.
fn committed_len(queue: &Handle) -> Result<u64> {
    let stored = queue.shared.get(&layout::length(queue.known.id))?;
    stored.map_or(Ok(0), |bytes| parse_len(queue, &bytes))
}

/// The length of a queue as it is stored.
pub(crate) fn parse_len(queue: &Handle, bytes: &[u8]) -> Result<u64> {
    let length = bytes.try_into().ok().map(i64::from_le_bytes).and_then(|length| u64::try_from(length).ok());
    length.ok_or_else(|| Error::corrupt(format!("the length of {} is damaged", queue.known)))
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        f.debug_struct("Line")
            .field("visits", &inner.visits.len())
            .field("reserved", &inner.reserved)
            .finish_non_exhaustive()
    }
}
