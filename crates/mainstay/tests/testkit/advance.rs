//! Virtual time goes from one thing that is due to the next: what happens in a year is counted, and not timed.

use std::time::Duration;

use mainstay::actor::{WallTime, wall};
use mainstay::prelude::*;
use mainstay::testkit::TestNode;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How often the thread may wake up in a time in which nothing is due: what was left of the start, a checkpoint of each set, the
/// levels of tokio's timers.
const IDLE_WAKE_UPS_MAX: u64 = 100;

#[interface]
trait Diary {
    async fn write(&mut self) -> Result<()>;
    async fn remind_daily(&mut self) -> Result<()>;
    async fn remind_in(&mut self, delay: Duration) -> Result<()>;
    async fn set_timer(&mut self, due: Duration) -> Result<()>;
    /// When each page was written.
    async fn pages(&self) -> Result<Vec<WallTime>>;
}

#[derive(Actor)]
#[actor(implements(Diary))]
struct DiaryActor {
    pages: State<Vec<WallTime>>,
    ctx: Context,
}

impl Diary for DiaryActor {
    async fn write(&mut self) -> Result<()> {
        self.pages.push(wall());
        Ok(())
    }

    async fn remind_daily(&mut self) -> Result<()> {
        self.ctx.remind("daily").after(DAY).every(DAY).set()?;
        Ok(())
    }

    async fn remind_in(&mut self, delay: Duration) -> Result<()> {
        self.ctx.remind("later").after(delay).set()?;
        Ok(())
    }

    async fn set_timer(&mut self, due: Duration) -> Result<()> {
        self.ctx.set_timer("write", due, None, Self::write)?;
        Ok(())
    }

    async fn pages(&self) -> Result<Vec<WallTime>> {
        Ok(self.pages.clone())
    }
}

impl Remindable for DiaryActor {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        self.write().await
    }
}

#[interface]
trait Cellar {
    async fn store(&self, ttl: Duration) -> Result<()>;
    async fn count(&self) -> Result<u64>;
}

#[derive(Service)]
#[service(implements(Cellar), partitions = singleton)]
struct CellarService {
    bottles: Dictionary<u64, u64>,
    state: StateManager,
}

impl Cellar for CellarService {
    async fn store(&self, ttl: Duration) -> Result<()> {
        self.state.transact(async |mut tx| self.bottles.set_with_ttl(&mut tx, 1, 1, ttl).await).await
    }

    async fn count(&self) -> Result<u64> {
        self.state.transact(async |mut tx| self.bottles.len(&mut tx).await).await
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<DiaryActor>().service::<CellarService>()).await.unwrap()
}

/// How often the thread of the runtime has gone to sleep.
fn wake_ups() -> u64 {
    tokio::runtime::Handle::current().metrics().worker_park_count(0)
}

/// How many actors of the type are in memory.
fn active(node: &TestNode) -> u64 {
    node.actors::<DiaryActor>().unwrap().active()
}

#[tokio::test]
async fn a_year_in_which_nothing_is_due_wakes_nothing_up() {
    let node = start().await;
    let (diary, cellar): (DiaryRef, CellarRef) = (node.actor(1).unwrap(), node.service(()).unwrap());
    diary.write().await.unwrap();
    // It waits for an expiry that is not due, and for none afterwards.
    cellar.store(2 * YEAR).await.unwrap();
    // The actor is collected, and what it has written is in a checkpoint.
    node.advance(2 * HOUR).await;
    assert_eq!(active(&node), 0);
    for year in 0..3 {
        let (before, from) = (wake_ups(), wall());
        node.advance(YEAR).await;
        // A timer counts in whole milliseconds, and ends with the next one.
        assert!(wall().saturating_duration_since(from) - YEAR <= Duration::from_millis(1));
        let woken = wake_ups() - before;
        assert!(woken < IDLE_WAKE_UPS_MAX, "{woken} wake-ups in year {year}");
    }
    assert_eq!(cellar.count().await.unwrap(), 0, "it has expired in the second year");
    assert_eq!(diary.pages().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_daily_reminder_comes_each_day_of_a_year_at_its_time() {
    let node = start().await;
    let diary: DiaryRef = node.actor(1).unwrap();
    let begin = wall();
    diary.remind_daily().await.unwrap();
    let before = wake_ups();
    node.advance(YEAR + HOUR).await;
    let woken = wake_ups() - before;
    let pages = diary.pages().await.unwrap();
    assert_eq!(pages.len(), 365);
    for (day, page) in (1..).zip(pages) {
        let late = page.saturating_duration_since(begin.saturating_add(DAY * day));
        assert!(page >= begin.saturating_add(DAY * day) && late < MINUTE, "day {day}: {late:?} late");
    }
    // Each day: its commit and checkpoint, and a scan for idle actors each minute until this one has left, an hour later. A
    // timer of minutes wakes tokio's clock up to four times.
    assert!(woken < 365 * 400, "{woken} wake-ups");
}

#[tokio::test]
async fn an_idle_actor_leaves_at_its_time_after_a_year_without_any() {
    let node = start().await;
    node.advance(YEAR).await;
    let diary: DiaryRef = node.actor(1).unwrap();
    diary.write().await.unwrap();
    node.advance(HOUR - 2 * MINUTE).await;
    assert_eq!(active(&node), 1, "it was used less than an hour ago");
    node.advance(4 * MINUTE).await;
    assert_eq!(active(&node), 0);
    // The same once more: nothing of the first time is left.
    node.advance(YEAR).await;
    diary.write().await.unwrap();
    node.advance(HOUR - 2 * MINUTE).await;
    assert_eq!(active(&node), 1);
    node.advance(4 * MINUTE).await;
    assert_eq!(active(&node), 0);
}

#[tokio::test]
async fn what_is_due_in_between_happens_in_its_order() {
    let node = start().await;
    let (first, second): (DiaryRef, DiaryRef) = (node.actor(1).unwrap(), node.actor(2).unwrap());
    let begin = wall();
    first.set_timer(40 * MINUTE).await.unwrap();
    second.set_timer(20 * MINUTE).await.unwrap();
    node.advance(HOUR).await;
    let written = [first.pages().await.unwrap(), second.pages().await.unwrap()].concat();
    let after = written.iter().map(|page| page.saturating_duration_since(begin).as_secs() / 60);
    assert_eq!(after.collect::<Vec<_>>(), [40, 20]);
}

#[tokio::test]
async fn a_wall_clock_that_is_set_is_followed_at_once_in_the_midst_of_a_wait() {
    let node = start().await;
    let diary: DiaryRef = node.actor(1).unwrap();
    diary.remind_daily().await.unwrap();
    node.advance(Duration::from_secs(1)).await;
    node.set_wall(wall().saturating_add(25 * HOUR));
    node.advance(Duration::from_secs(1)).await;
    assert_eq!(diary.pages().await.unwrap().len(), 1);
}

#[tokio::test]
async fn centuries_pass_in_full() {
    let mut node = TestNode::start(|node| node.actor::<DiaryActor>()).await.unwrap();
    let diary: DiaryRef = node.actor("d").unwrap();
    let begin = wall();
    diary.remind_in(150 * YEAR).await.unwrap();
    node.advance(149 * YEAR).await;
    assert_eq!(wall().saturating_duration_since(begin).as_secs(), (149 * YEAR).as_secs());
    assert_eq!(diary.pages().await.unwrap(), []);
    node.kill_for(51 * YEAR).await.unwrap();
    assert_eq!(wall().saturating_duration_since(begin).as_secs(), (200 * YEAR).as_secs());
    node.advance(MINUTE).await;
    assert_eq!(node.actor::<DiaryRef>("d").unwrap().pages().await.unwrap().len(), 1);
}
