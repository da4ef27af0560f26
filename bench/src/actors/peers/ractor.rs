//! ractor: `call!` without a timeout, which is a timer less; its own async traits instead of boxed ones; built without
//! its spans. Its mailbox is never bounded.

use std::path::Path;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::actors::counter::{Counter, Library};
use crate::outcome::Outcome;

pub(in crate::actors) struct Ractor;

struct CounterActor;

pub(in crate::actors) enum Message {
    Add(i64, RpcReplyPort<i64>),
}

impl Actor for CounterActor {
    type Msg = Message;
    type State = i64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Message>, (): ()) -> Result<i64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(&self, _: ActorRef<Message>, message: Message, count: &mut i64) -> Result<(), ActorProcessingErr> {
        let Message::Add(n, reply) = message;
        *count += n;
        Ok(reply.send(*count)?)
    }
}

impl Library for Ractor {
    type Counter = ActorRef<Message>;

    async fn open(_: &Path) -> Outcome<Self> {
        Ok(Self)
    }

    async fn start(&self, _: u64) -> Outcome<Self::Counter> {
        let (counter, _) = Actor::spawn(None, CounterActor, ()).await?;
        Ok(counter)
    }

    async fn close(self) {}
}

impl Counter for ActorRef<Message> {
    async fn add(&self, n: i64) -> Outcome<i64> {
        ractor::call!(self, Message::Add, n).map_err(|error| error.to_string().into())
    }
}
