//! actix: actors live in threads of their own, and it is fastest when those who ask live in the same one, because nobody
//! is woken across threads. The mailbox has room for all callers: with its default of 16 it would queue them twice.

use std::path::Path;
use std::thread::available_parallelism;

use actix::{Actor, Addr, Arbiter, Context, Handler, Message, System};
use tokio::sync::oneshot;

use crate::actors::activate::{Activation, activate};
use crate::actors::counter::{Asks, Caller, Counter, Library};
use crate::outcome::Outcome;

/// Room for a message of each caller.
const MAILBOX: usize = 64;

#[derive(Default)]
struct CounterActor {
    count: i64,
}

impl Actor for CounterActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.set_mailbox_capacity(MAILBOX);
    }
}

struct Add(i64);

impl Message for Add {
    type Result = i64;
}

impl Handler<Add> for CounterActor {
    type Result = i64;

    fn handle(&mut self, Add(n): Add, _: &mut Self::Context) -> i64 {
        self.count += n;
        self.count
    }
}

impl Counter for Addr<CounterActor> {
    async fn add(&self, n: i64) -> Outcome<i64> {
        Ok(self.send(Add(n)).await?)
    }
}

/// In the thread that starts them.
struct Actix;

impl Library for Actix {
    type Counter = Addr<CounterActor>;

    async fn open(_: &Path) -> Outcome<Self> {
        Ok(Self)
    }

    async fn start(&self, _: u64) -> Outcome<Self::Counter> {
        Ok(CounterActor::default().start())
    }

    async fn close(self) {}
}

/// Asks per second where all callers live in the thread of the actors.
pub(in crate::actors) fn on_one_thread(_: &Path, asks: Asks) -> Outcome<f64> {
    System::new().block_on(async {
        let counters = (0..asks.actors).map(|_| CounterActor::default().start()).collect();
        let spawn = |_, caller: Caller<_>| {
            let task = actix::spawn(caller.run());
            async move { task.await? }
        };
        asks.rate(counters, spawn).await
    })
}

/// Asks per second where actors and callers are dealt out to a thread for each core. The callers come last, so that one
/// caller and one actor are in two threads.
pub(in crate::actors) fn on_all_cores(_: &Path, asks: Asks) -> Outcome<f64> {
    System::new().block_on(async {
        let arbiters: Vec<Arbiter> = (0..available_parallelism()?.get()).map(|_| Arbiter::new()).collect();
        let arbiter = |number: usize| &arbiters[number % arbiters.len()];
        let start = |number| CounterActor::start_in_arbiter(&arbiter(number).handle(), |_| CounterActor::default());
        let counters = (0..asks.actors).map(start).collect();
        let spawn = |number, caller: Caller<_>| {
            let (done, end) = oneshot::channel();
            arbiter(asks.actors + number).spawn(async move {
                // Whoever waits for it does so until the end, or the whole run has failed.
                let _ = done.send(caller.run().await);
            });
            async move { end.await? }
        };
        let rate = asks.rate(counters, spawn).await?;
        for arbiter in arbiters {
            arbiter.stop();
            arbiter.join().map_err(|_| "a thread of actix panicked")?;
        }
        Ok(rate)
    })
}

/// Starts many actors in one thread.
pub(in crate::actors) fn activation(count: u64) -> Outcome<Activation> {
    System::new().block_on(activate(&Actix, count))
}
