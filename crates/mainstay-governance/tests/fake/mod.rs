//! A resource for tests: it knows who has it open, and notes whatever must never happen.
#![allow(dead_code, reason = "shared by several tests, none of which uses all of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::owner::{Fence, Opening, OwnerSettings, Reset, Resource};
use mainstay_governance::pool::PoolSettings;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, sleep_until};

/// How long it takes to open and to close.
const OPENING: Duration = Duration::from_millis(3);

/// How long it takes what was given up half way to go.
const LEAVING: Duration = Duration::from_millis(200);

/// What is outside of the node, and outlives it.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// Rises when the power fails: what was open before is gone.
    process: u32,
    open: BTreeMap<String, Fence>,
    /// How many may be open at once.
    cap: Option<usize>,
    peak: usize,
    /// The highest token that each key was used with.
    highest: BTreeMap<String, Fence>,
    openings: Vec<(String, Fence)>,
    failing_openings: u32,
    hanging_openings: u32,
    /// Half open, by an opening that was given up, and when it is gone once somebody has asked.
    left_behind: BTreeMap<String, Option<Instant>>,
    sick: BTreeSet<String>,
    done: Vec<(String, u64)>,
    /// Whether a handle can be made as new without being closed.
    is_resettable: bool,
    violations: Vec<String>,
}

impl World {
    /// No more than so many may be open from now on.
    pub(crate) fn cap(&self, cap: usize) {
        let mut inner = self.0.lock();
        inner.cap = Some(cap);
        inner.check_cap("when the cap was set");
    }

    /// The power fails: whatever was open is gone.
    pub(crate) fn lose_power(&self) {
        let mut inner = self.0.lock();
        inner.process += 1;
        inner.open.clear();
    }

    pub(crate) fn fail_openings(&self, openings: u32) {
        self.0.lock().failing_openings = openings;
    }

    /// So many openings get half way, and hang.
    pub(crate) fn hang_openings(&self, openings: u32) {
        self.0.lock().hanging_openings = openings;
    }

    /// Checks and jobs of a key fail from now on, or not any more.
    pub(crate) fn set_sick(&self, key: &str, is_sick: bool) {
        let mut inner = self.0.lock();
        match is_sick {
            true => inner.sick.insert(key.to_owned()),
            false => inner.sick.remove(key),
        };
    }

    /// What is open can be made as new without being closed.
    pub(crate) fn set_resettable(&self) {
        self.0.lock().is_resettable = true;
    }

    pub(crate) fn open(&self) -> Vec<String> {
        self.0.lock().open.keys().cloned().collect()
    }

    pub(crate) fn peak(&self) -> usize {
        self.0.lock().peak
    }

    /// The tokens that a key was opened with, in their order.
    pub(crate) fn tokens(&self, key: &str) -> Vec<u64> {
        let openings = &self.0.lock().openings;
        openings.iter().filter(|(opened, _)| opened == key).map(|(_, fence)| fence.get()).collect()
    }

    /// What was done by whom, in its order.
    pub(crate) fn done(&self) -> Vec<(String, u64)> {
        self.0.lock().done.clone()
    }

    /// The numbers that were done, in their order.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.done().into_iter().map(|(_, number)| number).collect()
    }

    /// Fails if anything has happened that must not.
    pub(crate) fn assert_sane(&self) {
        let inner = self.0.lock();
        assert!(inner.violations.is_empty(), "{:#?}", inner.violations);
        let mut last = BTreeMap::<&str, Fence>::new();
        for (key, fence) in &inner.openings {
            let before = last.insert(key, *fence);
            assert!(before.is_none_or(|before| before < *fence), "{key}: {fence} after {before:?}");
        }
    }
}

impl Inner {
    fn check_cap(&mut self, when: &str) {
        self.peak = self.peak.max(self.open.len());
        if self.cap.is_some_and(|cap| self.open.len() > cap) {
            let open: Vec<_> = self.open.keys().collect();
            self.violations.push(format!("more than {:?} are open {when}: {open:?}", self.cap));
        }
    }

    fn admit(&mut self, key: &str, fence: Fence) -> Result<()> {
        fence.admit(self.highest.entry(key.to_owned()).or_default())
    }
}

/// How the real thing is opened.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) world: World,
    pub(crate) owner: OwnerSettings,
    pub(crate) pool: PoolSettings,
}

/// The real thing.
pub(crate) struct Real {
    world: World,
    process: u32,
    key: String,
    fence: Fence,
    /// What was noted since a transaction was begun: it is done when that is committed, and lost with the handle.
    begun: Option<Vec<u64>>,
}

impl Drop for Real {
    fn drop(&mut self) {
        let mut inner = self.world.0.lock();
        if inner.process == self.process {
            inner.open.remove(&self.key);
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Begins a transaction.
    Begin,
    /// Ends it, and does what was noted in it.
    Commit,
    /// Notes a number.
    Note(u64),
    /// Notes a number after a while.
    Slowly(u64, Duration),
    /// Fails, and it is not the job's fault.
    Break,
    /// Fails, and it is.
    Refuse,
    Panic,
    Hang,
}

impl Fake {
    /// Opens it; `None` if it gets half way only.
    fn open_now(&self, opening: &Opening) -> Result<Option<Real>> {
        let Opening { key, fence, .. } = opening.clone();
        let mut inner = self.world.0.lock();
        inner.openings.push((key.clone(), fence));
        if inner.failing_openings > 0 {
            inner.failing_openings -= 1;
            return Err(Error::new(ErrorKind::Retry, "the server is down"));
        }
        fence.raise(inner.highest.entry(key.clone()).or_default())?;
        if let Some(other) = inner.open.insert(key.clone(), fence) {
            inner.violations.push(format!("{key} is open with {other} and with {fence}"));
        }
        inner.check_cap(&key);
        if inner.hanging_openings > 0 {
            inner.hanging_openings -= 1;
            inner.left_behind.insert(key, None);
            return Ok(None);
        }
        Ok(Some(Real { world: self.world.clone(), process: inner.process, key, fence, begun: None }))
    }
}

impl Resource for Fake {
    const NAME: &'static str = "fake";
    type Handle = Real;
    type Job = Job;
    type Reply = u64;

    async fn open(&self, opening: &Opening) -> Result<Real> {
        sleep(OPENING).await;
        match self.open_now(opening)? {
            Some(real) => Ok(real),
            None => std::future::pending().await,
        }
    }

    async fn run(&self, real: &mut Real, job: Job) -> Result<u64> {
        let number = match job {
            Job::Begin => {
                real.begun = Some(Vec::new());
                return Ok(0);
            }
            Job::Commit => {
                let (begun, key) = (real.begun.take(), &real.key);
                let done = begun.into_iter().flatten().map(|number| (key.clone(), number));
                self.world.0.lock().done.extend(done);
                return Ok(0);
            }
            Job::Note(number) => number,
            Job::Slowly(number, time) => {
                sleep(time).await;
                number
            }
            Job::Break => return Err(Error::new(ErrorKind::Retry, "the connection was reset")),
            Job::Refuse => return Err(Error::invalid("there is no such table")),
            Job::Panic => panic!("the driver has a bug"),
            Job::Hang => std::future::pending().await,
        };
        let mut inner = self.world.0.lock();
        if inner.sick.contains(&real.key) {
            return Err(Error::new(ErrorKind::Retry, "the connection was reset"));
        }
        inner.admit(&real.key, real.fence)?;
        match &mut real.begun {
            Some(begun) => begun.push(number),
            None => inner.done.push((real.key.clone(), number)),
        }
        Ok(number)
    }

    async fn check(&self, real: &mut Real) -> Result<()> {
        match self.world.0.lock().sick.contains(&real.key) {
            true => Err(Error::new(ErrorKind::Retry, "it does not answer")),
            false => Ok(()),
        }
    }

    async fn reset(&self, real: &mut Real) -> Result<Reset> {
        if !self.world.0.lock().is_resettable {
            return Ok(Reset::Reopen);
        }
        real.begun = None;
        Ok(Reset::Clean)
    }

    async fn close(&self, real: Real) {
        sleep(OPENING).await;
        drop(real);
    }

    async fn gone(&self, opening: &Opening) {
        let goes = {
            let mut inner = self.world.0.lock();
            let Some(goes) = inner.left_behind.get_mut(&opening.key) else { return };
            *goes.get_or_insert_with(|| Instant::now() + LEAVING)
        };
        sleep_until(goes).await;
        let mut inner = self.world.0.lock();
        if inner.left_behind.remove(&opening.key).is_some() {
            inner.open.remove(&opening.key);
        }
    }

    fn owner_settings(&self) -> OwnerSettings {
        self.owner
    }

    fn pool_settings(&self) -> PoolSettings {
        self.pool
    }
}

/// How long something may take to be so, in virtual or real time, before it counts as never.
const UNTIL_MAX: Duration = Duration::from_secs(600);

/// Waits until something is so.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(UNTIL_MAX, waiting).await.is_ok(), "it was never so");
}
