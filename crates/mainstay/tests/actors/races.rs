//! Calls that race with actors leaving memory, on real threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mainstay::prelude::*;
use mainstay_core::task;

use crate::lives::{Alive, lives};

const IDS: i64 = 4;
const CALLERS: i64 = 8;
const CALLS: i64 = 1_500;

#[interface]
trait Tally {
    async fn add(&mut self) -> Result<i64>;
    async fn get(&self) -> Result<i64>;
    async fn add_and_leave(&mut self) -> Result<i64>;
}

#[derive(Actor)]
#[actor(implements(Tally), persistence = "none", partitions = 2)]
struct TallyActor {
    count: State<i64>,
    alive: Option<Alive>,
    ctx: Context,
}

impl Lifecycle for TallyActor {
    async fn activate(&mut self) -> Result<()> {
        self.alive = Some(Alive::new(self.ctx.id()));
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn deactivate(&mut self) {
        tokio::task::yield_now().await;
    }
}

impl Tally for TallyActor {
    async fn add(&mut self) -> Result<i64> {
        *self.count += 1;
        if *self.count % 3 == 0 {
            tokio::task::yield_now().await;
        }
        Ok(*self.count)
    }

    async fn get(&self) -> Result<i64> {
        Ok(*self.count)
    }

    async fn add_and_leave(&mut self) -> Result<i64> {
        *self.count += 1;
        self.ctx.deactivate();
        Ok(*self.count)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_call_is_lost_and_there_are_never_two_objects_of_one_actor() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::builder()
        .data_dir(folder.path())
        .actor::<TallyActor>()
        .actor_defaults(move |settings| {
            settings.idle_timeout = Duration::from_millis(1);
            settings.idle_scan = Duration::from_millis(1);
            settings.active_actors_max = Some(2);
        })
        .start()
        .await
        .unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let sweeping = task::spawn({
        let (node, is_over) = (node.clone(), is_over.clone());
        async move {
            while !is_over.load(Ordering::Relaxed) {
                for id in 0..IDS {
                    node.deactivate_actor::<TallyActor>(id).await.unwrap();
                }
                tokio::task::yield_now().await;
            }
        }
    });
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let tallies: Vec<TallyRef> = (0..IDS).map(|id| node.actor(id).unwrap()).collect();
            task::spawn(async move {
                for call in 0..CALLS {
                    let tally = &tallies[((caller + call) % IDS) as usize];
                    let count = match call % 16 {
                        0 => tally.add_and_leave().await.unwrap(),
                        _ => tally.add().await.unwrap(),
                    };
                    assert!(tally.get().await.unwrap() >= count);
                    if call % 8 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    sweeping.await.unwrap();
    let mut activated = 0;
    for id in 0..IDS {
        let tally: TallyRef = node.actor(id).unwrap();
        assert_eq!(tally.get().await.unwrap(), CALLERS * CALLS / IDS, "every call counted once");
        let lives = lives(ActorId::from(id));
        assert_eq!(lives.alive_max, 1);
        activated += lives.activated;
    }
    assert!(activated > 100, "they did come and go: {activated}");
    node.stop().await;
    assert_eq!((0..IDS).map(|id| lives(ActorId::from(id)).alive).sum::<u64>(), 0);
}

#[interface]
trait Plain {
    async fn add(&mut self) -> Result<i64>;
    async fn get(&self) -> Result<i64>;
}

/// Keeps nothing: its turns are as short as turns can be.
#[derive(Actor)]
#[actor(implements(Plain), persistence = "none")]
struct PlainActor {
    count: i64,
}

impl Plain for PlainActor {
    async fn add(&mut self) -> Result<i64> {
        self.count += 1;
        Ok(self.count)
    }

    async fn get(&self) -> Result<i64> {
        Ok(self.count)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_comes_while_an_actor_is_being_given_back_gets_it() {
    const TURNS: i64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let node = Node::builder().data_dir(folder.path()).actor::<PlainActor>().start().await.unwrap();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let plain: PlainRef = node.actor(1).unwrap();
            task::spawn(async move {
                let mut last = 0;
                for turn in 0..TURNS {
                    let count = match (caller + turn) % 64 {
                        0 => plain.get().await.unwrap(),
                        _ => plain.add().await.unwrap(),
                    };
                    assert!(count >= last, "{count} after {last}");
                    last = count;
                    if turn % 16 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    // One who is forgotten waits until its call is over by time.
    for caller in callers {
        caller.await.unwrap();
    }
    let looked = (0..CALLERS).flat_map(|caller| (0..TURNS).map(move |turn| caller + turn)).filter(|n| n % 64 == 0);
    let plain: PlainRef = node.actor(1).unwrap();
    assert_eq!(plain.get().await.unwrap(), CALLERS * TURNS - looked.count() as i64);
    node.stop().await;
}
