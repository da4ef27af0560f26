//! The same counter as an actor of ours, on a node as a program has it: everything that a call goes through is there.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstay::prelude::*;
use mainstay_core::task;

use super::activate::Activation;
use super::counter::{Counter, Library};
use crate::collections::Record;
use crate::load::{Load, Writer, runtime};
use crate::outcome::Outcome;
use crate::process::Memory;
use crate::shuffled::Shuffled;
use crate::stopwatch::Stopwatch;

/// What is asked.
#[interface]
pub(super) trait Tally {
    /// Adds to the count and returns what it is then.
    async fn add(&mut self, n: i64) -> Result<i64>;
}

/// With a plain number, as the peers have it.
#[derive(Actor)]
#[actor(implements(Tally), persistence = "none")]
pub(super) struct PlainTally {
    count: i64,
}

impl Tally for PlainTally {
    async fn add(&mut self, n: i64) -> Result<i64> {
        self.count += n;
        Ok(self.count)
    }
}

/// With a number that is state: saved at the end of every turn that has changed it.
#[derive(Actor)]
#[actor(implements(Tally), persistence = "none")]
pub(super) struct StateTally {
    count: State<i64>,
}

impl Tally for StateTally {
    async fn add(&mut self, n: i64) -> Result<i64> {
        *self.count += n;
        Ok(*self.count)
    }
}

/// A node that serves one type of actor.
pub(super) struct Ours<A> {
    node: Node,
    actor: PhantomData<fn() -> A>,
}

impl<A: Actor> Library for Ours<A> {
    type Counter = TallyRef;

    async fn open(folder: &Path) -> Outcome<Self> {
        let node = Node::builder().isolated().data_dir(folder).actor::<A>().start().await?;
        Ok(Self { node, actor: PhantomData })
    }

    async fn start(&self, number: u64) -> Outcome<TallyRef> {
        Ok(self.node.actor(i64::try_from(number)?)?)
    }

    async fn close(self) {
        self.node.stop().await;
    }
}

impl Counter for TallyRef {
    async fn add(&self, n: i64) -> Outcome<i64> {
        Ok(TallyRef::add(self, n).await?)
    }
}

/// Activates many actors by their first call. Nobody holds a handle: an actor is there without one.
pub(super) fn activation<A: Actor>(folder: &Path, count: u64) -> Outcome<Activation> {
    let runtime = runtime()?;
    let found = runtime.block_on(async {
        let ours = Ours::<A>::open(folder).await?;
        // On a worker, where a program's own calls run.
        task::spawn(async move { activate(&ours, count).await }).await?
    });
    // Nobody waits until a million actors are gone.
    runtime.shutdown_background();
    found
}

async fn activate<A: Actor>(ours: &Ours<A>, count: u64) -> Outcome<Activation> {
    let before = Memory::now()?;
    let watch = Stopwatch::start();
    for number in 0..count {
        let answer = ours.start(number).await?.add(1).await?;
        if answer != 1 {
            return Err(format!("a new actor that was told to add 1 has {answer}").into());
        }
        tokio::task::coop::consume_budget().await;
    }
    let activated = watch.seconds();
    let activation = Activation::of(count, activated, activated, before)?;
    for number in 0..count {
        if ours.start(number).await?.add(0).await? != 1 {
            return Err("an actor has forgotten its count".into());
        }
    }
    Ok(activation)
}

/// What durable callers ask for.
#[interface]
pub(super) trait Keeper {
    /// Adds one to the number in the record.
    async fn change(&mut self) -> Result<()>;

    /// How often the record was changed.
    async fn changes(&self) -> Result<u64>;
}

/// Keeps a record like those of the bare transactions, in one partition as they do.
#[derive(Actor)]
#[actor(implements(Keeper), persistence = "persisted", partitions = 1)]
pub(super) struct RecordKeeper {
    record: State<Record>,
}

impl Keeper for RecordKeeper {
    async fn change(&mut self) -> Result<()> {
        self.record.count += 1;
        Ok(())
    }

    async fn changes(&self) -> Result<u64> {
        Ok(self.record.count)
    }
}

/// Whether the next turn of an actor may run while the commit of the one before is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    On,
    Off,
}

/// Durable calls per second. Where there are more actors than callers, each caller has its own.
pub(super) fn durable(folder: &Path, load: Load, actors: &[String], overlap: Overlap) -> Outcome<f64> {
    runtime()?.block_on(async {
        let builder = Node::builder().isolated().data_dir(folder).actor::<RecordKeeper>();
        let node = builder.actor_options(|options| options.overlap = overlap == Overlap::On).start().await?;
        let keepers: Vec<KeeperRef> = actors.iter().map(|id| node.actor(id.as_str())).collect::<Result<_>>()?;
        for keeper in &keepers {
            keeper.changes().await?;
        }
        let calls = Arc::new(AtomicU64::new(0));
        let writers = (0..load.writers).map(|caller| {
            let mut order = if keepers.len() < load.writers {
                Shuffled::of_all(caller, keepers.len())
            } else {
                Shuffled::of_caller(caller, load.writers, keepers.len())
            };
            let keepers = (0..order.len()).map(|_| keepers[order.next()].clone()).collect();
            DurableCaller { keepers, calls: calls.clone() }
        });
        let rate = load.on_tasks(writers).await?;
        let mut changes = 0;
        for keeper in &keepers {
            changes += keeper.changes().await?;
        }
        let calls = calls.load(Ordering::Relaxed);
        if changes != calls {
            return Err(format!("the actors have {changes} changes of {calls} calls").into());
        }
        node.stop().await;
        Ok(rate)
    })
}

struct DurableCaller {
    keepers: Vec<KeeperRef>,
    calls: Arc<AtomicU64>,
}

impl Writer for DurableCaller {
    async fn write(&mut self, turn: u64) -> Outcome<()> {
        self.keepers[turn as usize % self.keepers.len()].change().await?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
