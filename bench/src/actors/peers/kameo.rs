//! kameo: an unbounded mailbox, which spares it the semaphore of its default one; `send` on the ask, which spares it the
//! boxed future of awaiting it as it is; built without its spans.

use std::convert::Infallible;
use std::path::Path;

use kameo::Actor;
use kameo::actor::{ActorRef, Spawn as _};
use kameo::mailbox;
use kameo::message::{Context, Message};

use crate::actors::counter::{Counter, Library};
use crate::outcome::Outcome;

pub(in crate::actors) struct Kameo;

pub(in crate::actors) struct CounterActor {
    count: i64,
}

struct Add(i64);

impl Actor for CounterActor {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(args: Self::Args, _: ActorRef<Self>) -> Result<Self, Self::Error> {
        Ok(args)
    }
}

impl Message<Add> for CounterActor {
    type Reply = i64;

    async fn handle(&mut self, Add(n): Add, _: &mut Context<Self, Self::Reply>) -> Self::Reply {
        self.count += n;
        self.count
    }
}

impl Library for Kameo {
    type Counter = ActorRef<CounterActor>;

    async fn open(_: &Path) -> Outcome<Self> {
        Ok(Self)
    }

    async fn start(&self, _: u64) -> Outcome<Self::Counter> {
        Ok(CounterActor::spawn_with_mailbox(CounterActor { count: 0 }, mailbox::unbounded()))
    }

    async fn close(self) {}
}

impl Counter for ActorRef<CounterActor> {
    async fn add(&self, n: i64) -> Outcome<i64> {
        self.ask(Add(n)).send().await.map_err(|error| error.to_string().into())
    }
}
