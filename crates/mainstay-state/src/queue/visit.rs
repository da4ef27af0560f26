use std::fmt;

use mainstay_core::Result;
use mainstay_core::time::Duration;

use super::line::{Answer, Ask, Grant};
use super::supply::Item;
use super::wait_list::{Signal, Ticket};
use crate::collection::Handle;
use crate::entry::Entry;
use crate::lock::TransactionId;
use crate::transaction::{Ending, Transaction};

/// What was granted and is not yet part of a transaction. Dropping it gives it back.
pub(crate) struct Granted {
    queue: Handle,
    /// Empty once it is part of a transaction.
    grant: Option<Grant>,
}

impl Granted {
    /// What is asked for, if it is there and nobody waits for it.
    pub(crate) fn try_new(queue: &Handle, ask: Ask) -> Result<Option<Self>> {
        let grant = queue.known.line.try_grant(queue, ask)?;
        Ok(grant.map(|grant| Self { queue: queue.clone(), grant: Some(grant) }))
    }

    /// Room that a transaction has [reserved](super::Line::reserve).
    pub(crate) fn reserved(queue: &Handle, transaction: TransactionId) -> Self {
        Self { queue: queue.clone(), grant: Some(Grant::Room(transaction)) }
    }

    /// The item, if it is one.
    pub(crate) fn item(&self) -> Option<&Item> {
        match &self.grant {
            Some(Grant::Item(item)) => Some(item),
            _ => None,
        }
    }

    /// Whether it is still there, after others may have cleared the queue. That the collection stays is locked by now.
    pub(crate) fn confirm(&mut self) -> Result<bool> {
        match &mut self.grant {
            Some(Grant::Item(item)) => {
                let there = self.queue.known.line.confirm(&self.queue, item)?;
                if !there {
                    self.grant = None;
                }
                Ok(there)
            }
            _ => Ok(true),
        }
    }

    /// Makes it part of a transaction: an item is removed, room is used when the transaction pushes an item.
    pub(crate) fn keep(mut self, tx: &mut Transaction) -> Result<()> {
        let line = &self.queue.known.line;
        let needs_ending = match &self.grant {
            Some(Grant::Item(item)) => {
                let old = Entry::opaque(item.raw().clone())?;
                tx.writes.put(item.place.key(self.queue.known.id), Some(old), None)?;
                line.keep_item(tx.id(), item.place)
            }
            Some(Grant::Room(_)) => line.keep_room(tx.id()),
            None => false,
        };
        self.grant = None;
        if needs_ending {
            let ending = VisitEnding { queue: self.queue.clone(), transaction: tx.id() };
            tx.endings.push(Box::new(ending));
        }
        Ok(())
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.queue.known.line.take_back(&self.queue, grant);
        }
    }
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}", self.grant, self.queue.known)
    }
}

/// Somebody who waits for an item or for room. Dropping it ends the wait, and what it was granted goes to the next.
pub(crate) struct Wait<'a> {
    queue: &'a Handle,
    transaction: TransactionId,
    ask: Ask,
    ticket: Ticket,
}

/// Who wanted something has it, or waits for it.
pub(crate) enum Turn<'a> {
    Granted(Granted),
    Waiting(Wait<'a>),
}

impl<'a> Wait<'a> {
    /// Gets what is asked for, or stands in line for it.
    pub(crate) fn begin(queue: &'a Handle, tx: &mut Transaction, ask: Ask) -> Result<Turn<'a>> {
        let transaction = tx.id();
        Ok(match queue.known.line.grant_or_wait(queue, transaction, ask)? {
            Answer::Granted(grant) => Turn::Granted(Granted { queue: queue.clone(), grant: Some(grant) }),
            Answer::Waiting { ticket, needs_ending } => {
                if needs_ending {
                    // The wait itself may be forgotten instead of dropped.
                    tx.endings.push(Box::new(VisitEnding { queue: queue.clone(), transaction }));
                }
                Turn::Waiting(Self { queue, transaction, ask, ticket })
            }
        })
    }

    /// Waits, for no longer than the limit; `None` if it passed.
    pub(crate) async fn granted(self, limit: Duration) -> Result<Option<Granted>> {
        if let Ok(Err(error)) = self.queue.shared.home.timeout(limit, self.signalled()).await {
            return Err(error);
        }
        // If the limit passes while it is granted, it is found here.
        let grant = self.queue.known.line.leave(self.ask, self.ticket);
        Ok(grant.map(|grant| Granted { queue: self.queue.clone(), grant: Some(grant) }))
    }

    async fn signalled(&self) -> Result<()> {
        let Handle { shared, known } = self.queue;
        let mut role_state = shared.partition.watch();
        loop {
            let signal = tokio::select! {
                biased;
                signal = std::future::poll_fn(|context| known.line.poll(self.ask, self.ticket, context)) => signal,
                // Items may have come of which nobody could tell, or none will ever come again.
                Ok(()) = role_state.changed() => Signal::Called,
                () = shared.session.ended() => Signal::Called,
            };
            if signal == Signal::Granted {
                return Ok(());
            }
            shared.check()?;
            known.check(self.transaction)?;
            known.line.serve(self.queue)?;
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let line = &self.queue.known.line;
        if let Some(grant) = line.leave(self.ask, self.ticket) {
            line.take_back(self.queue, grant);
        } else if matches!(self.ask, Ask::Room { .. }) {
            // A shorter line may be all that those behind have waited for: they may ask for less.
            _ = line.serve(self.queue);
        }
    }
}

/// What a transaction has taken is gone, and what it has enqueued is there, or nothing of it has happened.
struct VisitEnding {
    queue: Handle,
    transaction: TransactionId,
}

impl Ending for VisitEnding {
    fn committed(self: Box<Self>) {
        self.queue.known.line.committed(&self.queue, self.transaction);
    }

    fn undone(self: Box<Self>) {
        self.queue.known.line.undone(&self.queue, self.transaction);
    }
}

/// A queue is cleared by a transaction. That the collection is not used by others is locked.
pub(crate) fn clear(queue: &Handle, tx: &mut Transaction) -> Result<()> {
    tx.writes.clear(queue.known.id)?;
    queue.known.line.clearing(tx.id());
    tx.endings.push(Box::new(ClearEnding { queue: queue.clone() }));
    Ok(())
}

struct ClearEnding {
    queue: Handle,
}

impl Ending for ClearEnding {
    fn committed(self: Box<Self>) {
        self.queue.known.line.cleared(&self.queue);
    }

    fn undone(self: Box<Self>) {
        self.queue.known.line.cleared(&self.queue);
    }
}
