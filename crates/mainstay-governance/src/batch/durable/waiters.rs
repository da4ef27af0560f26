use std::collections::BTreeMap;

use mainstay::prelude::*;

/// How many callers may wait for items to be written.
pub(super) const WAITERS_MAX: usize = 64 << 10;

/// Who waits for an item to be written. They live as long as the activation: if it ends, they are told.
#[derive(Default)]
pub(super) struct Waiters {
    by_number: BTreeMap<u64, Vec<QueueWaiter>>,
    count: usize,
}

/// What a caller waits for.
pub(super) enum QueueWaiter {
    /// The item of the number is written.
    Item(Responder<()>),
    /// The same, and the answer is the number.
    Number(Responder<u64>),
    /// Everything up to the number has left the line, in whatever way.
    Line(Responder<()>),
}

impl Waiters {
    pub(super) fn add(&mut self, number: u64, waiter: QueueWaiter) -> Result<()> {
        if self.count >= WAITERS_MAX {
            let text = format!("{WAITERS_MAX} callers wait for items to be written already: ask again later");
            return Err(Error::new(ErrorKind::Overloaded, text));
        }
        self.count += 1;
        self.by_number.entry(number).or_default().push(waiter);
        Ok(())
    }

    /// Answers all who wait for items before a number, which have left the line. One of them may have been set aside.
    pub(super) fn leave(&mut self, first: u64, set_aside: Option<(u64, &Error)>) {
        let rest = self.by_number.split_off(&first);
        for (number, waiters) in std::mem::replace(&mut self.by_number, rest) {
            let error = set_aside.filter(|(dead, _)| *dead == number).map(|(_, error)| error);
            let failure = || error.map(|error| refused(number, error));
            for waiter in waiters {
                self.count -= 1;
                match waiter {
                    QueueWaiter::Item(responder) => responder.respond(failure().map_or(Ok(()), Err)),
                    QueueWaiter::Number(responder) => responder.respond(failure().map_or(Ok(number), Err)),
                    QueueWaiter::Line(responder) => responder.respond(Ok(())),
                }
            }
        }
    }
}

fn refused(number: u64, error: &Error) -> Error {
    Error::new(error.kind(), format!("item {number} was set aside, because it cannot be written: {error}"))
}
