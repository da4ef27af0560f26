//! Actors that nobody uses leave memory, and are there again when they are called.

use std::sync::Mutex;

use mainstay::actor::ActorSettings;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_core::task;
use mainstay_core::time::{self, Duration};

use crate::lives::{Alive, lives};

const MINUTE: Duration = Duration::from_secs(60);

#[interface]
trait Sleeper {
    async fn count(&mut self) -> Result<(i64, u64)>;
    async fn look(&self) -> Result<i64>;
    async fn work(&mut self, minutes: u32) -> Result<()>;
    async fn leave_after(&mut self, seconds: u64) -> Result<()>;
    async fn later(&mut self) -> Result<Deferred<i64>>;
    async fn wake_every(&mut self, minutes: u32) -> Result<()>;
    /// Waits outside of its turns, and then counts.
    async fn wait_outside(&mut self, minutes: u32) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Sleeper), persistence = "none", partitions = 2)]
struct SleeperActor {
    count: State<i64>,
    calls: u64,
    /// How long `deactivate` takes.
    leaving: u64,
    owed: Option<Responder<i64>>,
    alive: Option<Alive>,
    ctx: Context,
}

static REFUSED: Mutex<Option<String>> = Mutex::new(None);

impl Lifecycle for SleeperActor {
    async fn activate(&mut self) -> Result<()> {
        self.alive = Some(Alive::new(self.ctx.id()));
        Ok(())
    }

    async fn deactivate(&mut self) {
        if let Some(alive) = &self.alive {
            alive.deactivated();
        }
        *self.count += 1000;
        if let Err(error) = self.save().await {
            *REFUSED.lock().unwrap() = Some(error.to_string());
        }
        if let Some(owed) = self.owed.take() {
            owed.respond(Ok(-1));
        }
        time::sleep(Duration::from_secs(self.leaving)).await;
    }
}

impl Sleeper for SleeperActor {
    async fn count(&mut self) -> Result<(i64, u64)> {
        *self.count += 1;
        self.calls += 1;
        Ok((*self.count, self.calls))
    }

    async fn look(&self) -> Result<i64> {
        Ok(*self.count)
    }

    async fn work(&mut self, minutes: u32) -> Result<()> {
        time::sleep(MINUTE * minutes).await;
        Ok(())
    }

    async fn leave_after(&mut self, seconds: u64) -> Result<()> {
        self.leaving = seconds;
        Ok(())
    }

    async fn later(&mut self) -> Result<Deferred<i64>> {
        let (deferred, responder) = mainstay::actor::deferred();
        self.owed = Some(responder);
        Ok(deferred)
    }

    async fn wake_every(&mut self, minutes: u32) -> Result<()> {
        self.ctx.remind("wake").every(MINUTE * minutes).set().map(drop)
    }

    async fn wait_outside(&mut self, minutes: u32) -> Result<()> {
        self.ctx.then(time::sleep(MINUTE * minutes), async |actor: &mut Self, ()| actor.count().await.map(drop))
    }
}

impl Remindable for SleeperActor {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        self.calls += 1;
        Ok(())
    }
}

/// Ten minutes of idleness, looked for every minute.
async fn start() -> TestNode {
    TestNode::start(|node| {
        node.actor::<SleeperActor>().actor_defaults(move |settings| {
            (settings.idle_timeout, settings.idle_scan) = (MINUTE * 10, MINUTE);
        })
    })
    .await
    .unwrap()
}

/// How often actors were activated and deactivated, and how many objects there are.
fn seen(id: &str) -> (u64, u64, u64) {
    let lives = lives(ActorId::from(id));
    (lives.activated, lives.deactivated, lives.alive)
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_is_idle_leaves_memory_and_keeps_its_state() {
    let node = start().await;
    let sleeper: SleeperRef = node.actor("leaves").unwrap();
    assert_eq!(sleeper.count().await.unwrap(), (1, 1));
    assert_eq!(sleeper.count().await.unwrap(), (2, 2));
    time::sleep(MINUTE * 10).await;
    assert_eq!(seen("leaves"), (1, 0, 1), "not before its time");
    time::sleep(MINUTE + Duration::from_secs(1)).await;
    assert_eq!(seen("leaves"), (1, 1, 0), "within a scan after its time");
    assert_eq!(sleeper.count().await.unwrap(), (3, 1), "state stays, memory does not, and the proxy finds it again");
    assert_eq!(seen("leaves"), (2, 1, 1));
    node.stop().await;
    assert_eq!(seen("leaves"), (2, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_is_used_stays() {
    let node = start().await;
    let sleeper: SleeperRef = node.actor("stays").unwrap();
    for _ in 0..12 {
        sleeper.count().await.unwrap();
        time::sleep(MINUTE * 5).await;
        sleeper.look().await.unwrap();
        time::sleep(MINUTE * 5).await;
    }
    assert_eq!(seen("stays"), (1, 0, 1), "shared turns and exclusive ones are use");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reminder_is_use() {
    let node = start().await;
    let sleeper: SleeperRef = node.actor("wakes").unwrap();
    sleeper.wake_every(5).await.unwrap();
    time::sleep(MINUTE * 121).await;
    assert_eq!(sleeper.count().await.unwrap(), (1, 25));
    assert_eq!(seen("wakes"), (1, 0, 1));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_long_is_use_until_it_ends() {
    let node = start().await;
    let sleeper: SleeperRef = node.actor("works").unwrap();
    let patient = sleeper.with_timeout(MINUTE * 600);
    patient.work(45).await.unwrap();
    time::sleep(MINUTE * 9).await;
    assert_eq!(seen("works"), (1, 0, 1), "counted from its end");
    time::sleep(MINUTE * 3).await;
    assert_eq!(seen("works"), (1, 1, 0));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_saved_on_the_way_out_and_what_is_owed_is_answered() {
    let node = start().await;
    let sleeper: SleeperRef = node.actor("owes").unwrap();
    sleeper.count().await.unwrap();
    let patient = sleeper.with_timeout(MINUTE * 600);
    let (answer, ()) = tokio::join!(patient.later(), async {
        time::sleep(MINUTE).await;
        node.deactivate_actor::<SleeperActor>("owes").await.unwrap();
    });
    assert_eq!(answer.unwrap(), -1, "the answer of `deactivate`");
    assert_eq!(seen("owes"), (1, 1, 0));
    let refused = REFUSED.lock().unwrap().take().unwrap();
    assert!(refused.contains("is being deactivated, and its state cannot change any more"), "{refused}");
    assert_eq!(sleeper.look().await.unwrap(), 1);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_while_an_actor_leaves_find_a_new_one() {
    let node = start().await;
    let sleeper: SleeperRef = node.actor("returns").unwrap();
    sleeper.count().await.unwrap();
    sleeper.leave_after(3).await.unwrap();
    while seen("returns").1 == 0 {
        time::sleep(Duration::from_secs(1)).await;
    }
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let sleeper = sleeper.clone();
            task::spawn(async move { sleeper.count().await })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap().unwrap());
    }
    answers.sort_unstable();
    assert_eq!(
        answers,
        (1..=20).map(|call| (call + 1, call as u64)).collect::<Vec<_>>(),
        "none lost, on one new object"
    );
    assert_eq!(seen("returns"), (2, 1, 1));
    assert_eq!(lives(ActorId::from("returns")).alive_max, 1);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_does_not_end_is_dropped_after_the_grace_period() {
    let node = start().await;
    let sleeper: SleeperRef = node.actor("hangs").unwrap();
    sleeper.leave_after(3600).await.unwrap();
    while seen("hangs").1 == 0 {
        time::sleep(Duration::from_secs(1)).await;
    }
    let before = time::now();
    assert_eq!(sleeper.count().await.unwrap(), (1, 1));
    assert!(before.elapsed() <= ActorSettings::default().deactivation_grace);
    assert_eq!(seen("hangs"), (2, 1, 1));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_owes_an_answer_is_in_use_until_nobody_waits_for_it() {
    let node = start().await;
    let sleeper: SleeperRef = node.actor("debtor").unwrap();
    let error = sleeper.with_timeout(MINUTE * 30).later().await.unwrap_err();
    assert!(error.to_string().contains("was not given within the time limit"), "{error}");
    assert_eq!(seen("debtor"), (1, 0, 1));
    time::sleep(MINUTE * 9).await;
    assert_eq!(seen("debtor"), (1, 0, 1), "counted from then");
    time::sleep(MINUTE * 3).await;
    assert_eq!(seen("debtor"), (1, 1, 0));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_waits_outside_of_its_turns_is_in_use() {
    let node = start().await;
    let sleeper: SleeperRef = node.actor("waits").unwrap();
    sleeper.wait_outside(45).await.unwrap();
    time::sleep(MINUTE * 54).await;
    assert_eq!(seen("waits"), (1, 0, 1), "what it has waited for has come, and counts like a call");
    assert_eq!(sleeper.look().await.unwrap(), 1);
    time::sleep(MINUTE * 12).await;
    assert_eq!(seen("waits"), (1, 1, 0));
    node.stop().await;
}
