//! xtra: an unbounded mailbox, so that no sender ever takes the path of those who wait for room.

use std::path::Path;

use xtra::{Actor, Address, Context, Handler, Mailbox};

use crate::actors::counter::{Counter, Library};
use crate::outcome::Outcome;

pub(in crate::actors) struct Xtra;

pub(in crate::actors) struct CounterActor {
    count: i64,
}

struct Add(i64);

impl Actor for CounterActor {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<Add> for CounterActor {
    type Return = i64;

    async fn handle(&mut self, Add(n): Add, _: &mut Context<Self>) -> i64 {
        self.count += n;
        self.count
    }
}

impl Library for Xtra {
    type Counter = Address<CounterActor>;

    async fn open(_: &Path) -> Outcome<Self> {
        Ok(Self)
    }

    async fn start(&self, _: u64) -> Outcome<Self::Counter> {
        Ok(xtra::spawn_tokio(CounterActor { count: 0 }, Mailbox::unbounded()))
    }

    async fn close(self) {}
}

impl Counter for Address<CounterActor> {
    async fn add(&self, n: i64) -> Outcome<i64> {
        Ok(self.send(Add(n)).await?)
    }
}
