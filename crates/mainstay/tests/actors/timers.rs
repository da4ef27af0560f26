//! Timers: what an actor does by itself while it is in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mainstay::actor::{TIMERS_PER_ACTOR_MAX, Timer};
use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay_core::time::{self, Duration, WallTime};

use crate::harness::on;
use crate::log::Log;

/// What a commit may have where it is to fail.
const COMMIT_BYTES_MAX: usize = 100_000;

#[interface]
trait Ticker {
    /// Sets the timer "tick".
    async fn start(&mut self, due_ms: u64, period_ms: Option<u64>) -> Result<()>;
    /// What a run does: it takes so long, and ends like this.
    async fn plan(&mut self, run_ms: u64, end: String) -> Result<()>;
    /// Sets the timer and fails.
    async fn start_and_fail(&mut self, due_ms: u64) -> Result<()>;
    async fn cancel(&mut self, name: String) -> Result<bool>;
    async fn cancel_by_handle(&mut self) -> Result<bool>;
    async fn is_active(&self) -> Result<bool>;
    /// When runs began, in milliseconds since the first call, in this activation.
    async fn ticks(&self) -> Result<Vec<u64>>;
    /// How many runs were saved.
    async fn saved(&self) -> Result<u32>;
    async fn work(&mut self, millis: u64) -> Result<()>;
    async fn panic(&mut self) -> Result<()>;
    /// Makes a commit that is not.
    async fn save_something(&mut self) -> Result<()>;
    /// Makes a commit that is refused.
    async fn save_too_much(&mut self) -> Result<()>;
    async fn odd(&mut self, kind: String) -> Result<()>;
}

/// Declares the same actor at a level.
macro_rules! ticker {
    ($name:ident, $level:literal) => {
        #[derive(Actor)]
        #[actor(implements(Ticker), persistence = $level, partitions = 1)]
        struct $name {
            saved: State<u32>,
            large: State<Vec<u8>>,
            began: Option<WallTime>,
            ticks: Vec<u64>,
            run_ms: u64,
            end: String,
            timer: Option<Timer>,
            ctx: Context,
        }

        impl $name {
            fn passed(&mut self) -> u64 {
                let began = *self.began.get_or_insert_with(time::wall);
                time::wall().saturating_duration_since(began).as_millis() as u64
            }

            async fn tick(&mut self) -> Result<()> {
                let passed = self.passed();
                self.ticks.push(passed);
                *self.saved += 1;
                time::sleep(Duration::from_millis(self.run_ms)).await;
                match &*self.end {
                    "error" => Err(Error::invalid("no tick today")),
                    "panic" => panic!("no tick ever"),
                    "cancel" => {
                        assert!(self.ctx.cancel_timer("tick"));
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
        }

        impl Ticker for $name {
            async fn start(&mut self, due_ms: u64, period_ms: Option<u64>) -> Result<()> {
                self.passed();
                let period = period_ms.map(Duration::from_millis);
                self.timer = Some(self.ctx.set_timer("tick", Duration::from_millis(due_ms), period, Self::tick)?);
                Ok(())
            }

            async fn plan(&mut self, run_ms: u64, end: String) -> Result<()> {
                (self.run_ms, self.end) = (run_ms, end);
                Ok(())
            }

            async fn start_and_fail(&mut self, due_ms: u64) -> Result<()> {
                self.start(due_ms, None).await?;
                Err(Error::invalid("failed on purpose"))
            }

            async fn cancel(&mut self, name: String) -> Result<bool> {
                Ok(self.ctx.cancel_timer(&name))
            }

            async fn cancel_by_handle(&mut self) -> Result<bool> {
                let Some(timer) = self.timer.take() else { return Ok(false) };
                timer.cancel();
                Ok(!timer.is_active() && timer.name() == "tick")
            }

            async fn is_active(&self) -> Result<bool> {
                Ok(self.timer.as_ref().is_some_and(Timer::is_active))
            }

            async fn ticks(&self) -> Result<Vec<u64>> {
                Ok(self.ticks.clone())
            }

            async fn saved(&self) -> Result<u32> {
                Ok(*self.saved)
            }

            async fn work(&mut self, millis: u64) -> Result<()> {
                time::sleep(Duration::from_millis(millis)).await;
                Ok(())
            }

            async fn panic(&mut self) -> Result<()> {
                panic!("on purpose")
            }

            async fn save_something(&mut self) -> Result<()> {
                *self.saved += 1;
                Ok(())
            }

            async fn save_too_much(&mut self) -> Result<()> {
                *self.large = vec![7; 2 * COMMIT_BYTES_MAX];
                Ok(())
            }

            async fn odd(&mut self, kind: String) -> Result<()> {
                let second = Duration::from_secs(1);
                match &*kind {
                    "type" => self.ctx.set_timer("odd", second, None, Stranger::tick).map(drop),
                    "period" => self.ctx.set_timer("odd", second, Some(Duration::ZERO), Self::tick).map(drop),
                    "closure" => {
                        let (many, text) = (3, String::from("captured"));
                        let add = async move |actor: &mut Self| {
                            *actor.saved += many * u32::from(text == "captured");
                            Ok(())
                        };
                        self.ctx.set_timer("odd", second, Some(second), add).map(drop)
                    }
                    "many" => {
                        for number in 0..TIMERS_PER_ACTOR_MAX {
                            self.ctx.set_timer(&format!("odd {number}"), second, None, Self::tick)?;
                        }
                        // To replace one is fine.
                        self.ctx.set_timer("odd 0", second, None, Self::tick)?;
                        self.ctx.set_timer("one more", second, None, Self::tick).map(drop)
                    }
                    _ => Err(Error::invalid(kind)),
                }
            }
        }
    };
}

ticker!(LightTicker, "none");
ticker!(DurableTicker, "persisted");

#[derive(Actor)]
struct Stranger {}

impl Stranger {
    async fn tick(&mut self) -> Result<()> {
        Ok(())
    }
}

async fn light() -> (Node, TickerRef) {
    // Timers end with the activation, and do not keep an actor in memory.
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    let builder =
        on(&SimDisk::new(1)).actor::<LightTicker>().actor_defaults(move |settings| settings.idle_timeout = year);
    let node = builder.start().await.unwrap();
    let ticker = node.actor("t").unwrap();
    (node, ticker)
}

async fn wait(millis: u64) {
    time::sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn a_period_counts_from_the_end_of_a_run_to_the_next() {
    let (_node, ticker) = light().await;
    ticker.plan(300, String::new()).await.unwrap();
    ticker.start(500, Some(1000)).await.unwrap();
    wait(499).await;
    assert_eq!(ticker.ticks().await.unwrap(), Vec::<u64>::new());
    wait(4000).await;
    assert_eq!(ticker.ticks().await.unwrap(), [500, 1800, 3100, 4400]);
    assert!(ticker.is_active().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn one_without_a_period_runs_once_and_has_ended_then() {
    let (_node, ticker) = light().await;
    ticker.start(0, None).await.unwrap();
    assert!(ticker.is_active().await.unwrap());
    wait(10_000).await;
    assert_eq!(ticker.ticks().await.unwrap(), [0]);
    assert!(!ticker.is_active().await.unwrap());
    assert!(!ticker.cancel("tick".into()).await.unwrap(), "it is gone");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_cancelled_by_name_by_handle_or_in_its_own_run_does_not_come_back() {
    let (_node, ticker) = light().await;
    ticker.start(1000, Some(1000)).await.unwrap();
    assert!(!ticker.cancel("tock".into()).await.unwrap());
    wait(1500).await;
    assert!(ticker.cancel("tick".into()).await.unwrap());
    wait(10_000).await;
    assert_eq!(ticker.ticks().await.unwrap(), [1000]);

    ticker.start(1000, Some(1000)).await.unwrap();
    assert!(ticker.cancel_by_handle().await.unwrap());
    wait(10_000).await;
    assert_eq!(ticker.ticks().await.unwrap(), [1000]);

    ticker.plan(0, "cancel".into()).await.unwrap();
    ticker.start(1000, Some(1000)).await.unwrap();
    wait(10_000).await;
    assert_eq!(ticker.ticks().await.unwrap().len(), 2);
    assert!(!ticker.is_active().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn one_of_the_same_name_replaces_the_earlier() {
    let (_node, ticker) = light().await;
    ticker.start(1000, Some(1000)).await.unwrap();
    ticker.start(5000, None).await.unwrap();
    wait(20_000).await;
    assert_eq!(ticker.ticks().await.unwrap(), [5000]);
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_for_its_turn_and_is_not_counted_as_a_call_that_waits() {
    let disk = SimDisk::new(1);
    let node = on(&disk).actor::<LightTicker>().actor_defaults(|settings| settings.mailbox = 1).start().await.unwrap();
    let ticker: TickerRef = node.actor("t").unwrap();
    ticker.start(1000, None).await.unwrap();
    let busy = async {
        wait(500).await;
        tokio::join!(ticker.work(5000), ticker.work(3000))
    };
    let (one, two) = busy.await;
    one.and(two).unwrap();
    wait(1).await;
    assert_eq!(
        ticker.ticks().await.unwrap(),
        [8500],
        "after the calls that came before, one of which filled the mailbox"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_in_line_when_its_timer_was_cancelled_does_not_happen() {
    let (_node, ticker) = light().await;
    ticker.start(1000, Some(1000)).await.unwrap();
    let (worked, cancelled) = tokio::join!(ticker.work(900), ticker.work(50));
    worked.unwrap();
    cancelled.unwrap();
    let late = async {
        wait(10).await;
        // It has the actor when the timer is due, and cancels it when it ends.
        let ((), cancelled) = tokio::join!(async { ticker.work(500).await.unwrap() }, ticker.cancel("tick".into()));
        assert!(cancelled.unwrap());
    };
    late.await;
    wait(10_000).await;
    assert_eq!(ticker.ticks().await.unwrap(), Vec::<u64>::new());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_is_logged_its_changes_are_dropped_and_the_timer_goes_on() {
    let log = Log::start();
    let (_node, ticker) = light().await;
    ticker.plan(0, "error".into()).await.unwrap();
    ticker.start(1000, Some(1000)).await.unwrap();
    wait(2500).await;
    assert_eq!(ticker.ticks().await.unwrap(), [1000, 2000]);
    assert_eq!(ticker.saved().await.unwrap(), 0);
    assert_eq!(log.matching(&["WARN", "LightTicker(\"t\")", "timer=\"tick\"", "no tick today"]), 2);
    ticker.plan(0, String::new()).await.unwrap();
    wait(1000).await;
    assert_eq!(ticker.saved().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_in_line_when_its_actor_is_deleted_has_not_failed() {
    let log = Log::start();
    let (_node, ticker) = light().await;
    ticker.start(1000, Some(1000)).await.unwrap();
    let deleted = async {
        wait(10).await;
        ticker.delete_actor().await
    };
    let (worked, deleted) = tokio::join!(ticker.work(5000), deleted);
    worked.and(deleted).unwrap();
    wait(10_000).await;
    assert_eq!(ticker.ticks().await.unwrap(), Vec::<u64>::new());
    assert_eq!(log.matching(&["WARN", "timer"]), 0);
}

#[tokio::test(start_paused = true)]
async fn a_timer_stays_when_the_turn_that_set_it_returns_an_error() {
    let (_node, ticker) = light().await;
    ticker.start_and_fail(1000).await.unwrap_err();
    wait(2000).await;
    assert_eq!(ticker.ticks().await.unwrap(), [1000]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_method_or_of_the_run_itself_drops_the_timers() {
    let (_node, ticker) = light().await;
    ticker.start(1000, Some(1000)).await.unwrap();
    wait(1500).await;
    ticker.panic().await.unwrap_err();
    wait(10_000).await;
    assert_eq!(ticker.saved().await.unwrap(), 1);

    ticker.plan(0, "panic".into()).await.unwrap();
    ticker.start(1000, Some(1000)).await.unwrap();
    wait(10_000).await;
    assert_eq!((ticker.saved().await.unwrap(), ticker.ticks().await.unwrap()), (1, vec![]), "a new activation");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_drops_the_timers() {
    let disk = SimDisk::new(1);
    let small = on(&disk).host_options(|options| options.replica.commit.commit_bytes_max = COMMIT_BYTES_MAX);
    let node = small.actor::<DurableTicker>().start().await.unwrap();
    let ticker: TickerRef = node.actor("t").unwrap();
    ticker.start(1000, Some(1000)).await.unwrap();
    wait(1500).await;
    let error = ticker.save_too_much().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    wait(10_000).await;
    assert_eq!(ticker.saved().await.unwrap(), 1);

    // It gathers behind a commit that is under way, and fails when nobody has the actor any more.
    ticker.start(1000, Some(1000)).await.unwrap();
    let (saved, refused) = tokio::join!(ticker.save_something(), ticker.save_too_much());
    saved.unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::TooLarge);
    wait(10_000).await;
    assert_eq!(ticker.saved().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_run_changes_is_durable_and_timers_are_not() {
    let disk = SimDisk::new(1);
    {
        let node = on(&disk).actor::<DurableTicker>().start().await.unwrap();
        let ticker: TickerRef = node.actor("t").unwrap();
        ticker.start(1000, Some(1000)).await.unwrap();
        wait(3500).await;
        assert_eq!(ticker.saved().await.unwrap(), 3);
    }
    disk.crash();
    let node = on(&disk).actor::<DurableTicker>().start().await.unwrap();
    let ticker: TickerRef = node.actor("t").unwrap();
    assert_eq!(ticker.saved().await.unwrap(), 3);
    wait(10_000).await;
    assert_eq!(ticker.saved().await.unwrap(), 3);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn months_and_fractions_of_a_second_pass_exactly() {
    let (_node, ticker) = light().await;
    let sixty_days = 60 * 24 * 60 * 60 * 1000;
    ticker.start(sixty_days, Some(1)).await.unwrap();
    tokio::time::advance(Duration::from_millis(sixty_days - 10)).await;
    wait(9).await;
    assert_eq!(ticker.ticks().await.unwrap(), Vec::<u64>::new());
    wait(3).await;
    assert_eq!(ticker.ticks().await.unwrap()[..2], [sixty_days, sixty_days + 1]);
}

#[tokio::test(start_paused = true)]
async fn a_method_of_another_actor_no_period_at_all_and_too_many_are_refused() {
    let (_node, ticker) = light().await;
    let refused = async |kind: &str| ticker.odd(kind.to_owned()).await.unwrap_err();
    let error = refused("type").await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("LightTicker(\"t\")") && error.to_string().contains("Stranger"), "{error}");
    let error = refused("period").await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("a period of zero"), "{error}");
    let error = refused("many").await;
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert!(error.to_string().contains("TIMERS_PER_ACTOR_MAX"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_closure_can_capture_and_is_given_the_actor() {
    let (_node, ticker) = light().await;
    ticker.odd("closure".into()).await.unwrap();
    wait(2500).await;
    assert_eq!(ticker.saved().await.unwrap(), 6);
}

/// What happened to beacons, and what is to happen.
#[derive(Default)]
struct Tower {
    beats: AtomicU32,
    activations: AtomicU32,
    /// How many activations fail from now on.
    failing: AtomicU32,
    is_panicking: AtomicBool,
}

impl Tower {
    fn beats(&self) -> u32 {
        self.beats.load(Ordering::Relaxed)
    }

    fn activations(&self) -> u32 {
        self.activations.load(Ordering::Relaxed)
    }
}

#[interface]
trait Beacon {
    async fn ping(&mut self) -> Result<()>;
    async fn panic(&mut self) -> Result<()>;
    async fn peek_and_panic(&self) -> Result<()>;
    async fn save_too_much(&mut self) -> Result<()>;
    async fn leave(&mut self) -> Result<()>;
}

/// Sets its timer when it is activated.
#[derive(Actor)]
#[actor(implements(Beacon), partitions = 1)]
struct BeaconActor {
    large: State<Vec<u8>>,
    pings: State<u32>,
    ctx: Context,
}

impl BeaconActor {
    async fn beat(&mut self) -> Result<()> {
        let tower = self.ctx.provided::<Arc<Tower>>()?;
        tower.beats.fetch_add(1, Ordering::Relaxed);
        assert!(!tower.is_panicking.load(Ordering::Relaxed), "no beat ever");
        Ok(())
    }
}

impl Lifecycle for BeaconActor {
    async fn activate(&mut self) -> Result<()> {
        let tower = self.ctx.provided::<Arc<Tower>>()?;
        tower.activations.fetch_add(1, Ordering::Relaxed);
        let second = Duration::from_secs(1);
        self.ctx.set_timer("beat", second, Some(second), Self::beat)?;
        match tower.failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(Error::invalid("not yet")),
            Err(_) => Ok(()),
        }
    }
}

impl Beacon for BeaconActor {
    async fn ping(&mut self) -> Result<()> {
        *self.pings += 1;
        Ok(())
    }

    async fn panic(&mut self) -> Result<()> {
        panic!("on purpose")
    }

    async fn peek_and_panic(&self) -> Result<()> {
        panic!("on purpose")
    }

    async fn save_too_much(&mut self) -> Result<()> {
        *self.large = vec![7; 2 * COMMIT_BYTES_MAX];
        Ok(())
    }

    async fn leave(&mut self) -> Result<()> {
        self.ctx.deactivate();
        Ok(())
    }
}

async fn beacon(tower: &Arc<Tower>) -> (Node, BeaconRef) {
    let small = on(&SimDisk::new(1)).host_options(|options| options.replica.commit.commit_bytes_max = COMMIT_BYTES_MAX);
    let node = small.provide(tower.clone()).actor::<BeaconActor>().start().await.unwrap();
    let beacon = node.actor::<BeaconRef>("b").unwrap();
    beacon.ping().await.unwrap();
    (node, beacon)
}

#[tokio::test(start_paused = true)]
async fn what_activate_sets_up_comes_back_by_itself_after_a_panic_and_a_commit_that_fails() {
    let tower = Arc::new(Tower::default());
    let (_node, beacon) = beacon(&tower).await;
    wait(3500).await;
    assert_eq!((tower.beats(), tower.activations()), (3, 1));

    beacon.panic().await.unwrap_err();
    wait(3500).await;
    assert_eq!((tower.beats(), tower.activations()), (6, 2), "nobody has called it");

    wait(60_000).await;
    let beats = tower.beats();
    beacon.peek_and_panic().await.unwrap_err();
    wait(3500).await;
    assert_eq!((tower.beats(), tower.activations()), (beats + 3, 3));

    wait(60_000).await;
    let beats = tower.beats();
    let (pinged, refused) = tokio::join!(beacon.ping(), beacon.save_too_much());
    pinged.unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::TooLarge, "when nobody had it any more");
    wait(1).await;
    assert_eq!(tower.activations(), 4, "before a timer of the one that was lost could have found that out");
    wait(3500).await;
    assert_eq!((tower.beats(), tower.activations()), (beats + 3, 4));
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_come_back_is_tried_again_after_a_while_and_not_for_ever() {
    let tower = Arc::new(Tower::default());
    let (_node, beacon) = beacon(&tower).await;
    tower.failing.store(3, Ordering::Relaxed);
    beacon.panic().await.unwrap_err();
    wait(10_000).await;
    assert_eq!(tower.activations(), 1 + 3 + 1);
    assert!(tower.beats() > 5, "{}", tower.beats());

    wait(60_000).await;
    tower.failing.store(u32::MAX, Ordering::Relaxed);
    beacon.panic().await.unwrap_err();
    wait(60 * 60 * 1000).await;
    assert_eq!(tower.activations(), 5 + 16);
    tower.failing.store(0, Ordering::Relaxed);
    let beats = tower.beats();
    beacon.ping().await.unwrap();
    wait(3500).await;
    assert_eq!(tower.beats(), beats + 3, "whoever calls it brings it back");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_lost_with_every_run_comes_back_more_and_more_seldom() {
    let tower = Arc::new(Tower::default());
    let (_node, _beacon) = beacon(&tower).await;
    tower.is_panicking.store(true, Ordering::Relaxed);
    wait(10 * 60 * 1000).await;
    let activations = tower.activations();
    assert!((15..60).contains(&activations), "{activations}");
    tower.is_panicking.store(false, Ordering::Relaxed);
    wait(60_000).await;
    let beats = tower.beats();
    wait(10_000).await;
    assert_eq!(tower.beats(), beats + 10);
}

#[tokio::test(start_paused = true)]
async fn one_of_which_nothing_is_stored_does_not_come_back() {
    let tower = Arc::new(Tower::default());
    let (node, beacon) = beacon(&tower).await;
    beacon.delete_actor().await.unwrap();
    assert_eq!(beacon.save_too_much().await.unwrap_err().kind(), ErrorKind::TooLarge);
    wait(10_000).await;
    assert_eq!((tower.beats(), tower.activations()), (0, 2), "only a call makes an actor");
    assert_eq!(node.actors::<BeaconActor>().unwrap().all().collect().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn one_that_leaves_on_purpose_does_not_come_back() {
    let tower = Arc::new(Tower::default());
    let (node, beacon) = beacon(&tower).await;
    beacon.leave().await.unwrap();
    wait(10_000).await;
    assert_eq!((tower.beats(), tower.activations()), (0, 1), "by itself");
    beacon.ping().await.unwrap();
    node.actors::<BeaconActor>().unwrap().deactivate("b").await.unwrap();
    wait(10_000).await;
    assert_eq!((tower.beats(), tower.activations()), (0, 2), "from outside");

    // Also one that is about to come back.
    beacon.ping().await.unwrap();
    tower.failing.store(u32::MAX, Ordering::Relaxed);
    beacon.panic().await.unwrap_err();
    wait(1000).await;
    beacon.delete_actor().await.unwrap();
    tower.failing.store(0, Ordering::Relaxed);
    wait(60_000).await;
    assert_eq!(tower.beats(), 0);
    assert_eq!(node.actors::<BeaconActor>().unwrap().all().collect().await.unwrap(), []);
}
