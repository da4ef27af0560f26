use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mainstay::{Error, ErrorKind, Proxy as _, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::owner::Resource;
use crate::pool::interface::{CoordinatorRef, Grant, Ran, Refusal, Ticket};
use crate::pool::resource_pool::Shared;
use crate::pool::roster::Seat;

/// A lease is renewed when this part of its time has passed.
const RENEWALS_PER_LEASE: u32 = 3;

/// A member of a pool, for one holder alone until this is dropped.
///
/// It is renewed by itself for as long as the process lives. If that fails for too long, the member is given to the next in
/// line, and jobs of this lease are refused.
pub struct Lease<R: Resource> {
    shared: Arc<Shared<R>>,
    seat: Arc<Seat<R>>,
    token: u64,
    timeout: Duration,
    is_over: Arc<AtomicBool>,
    renewing: JoinHandle<()>,
    /// How long the member is to be left alone after this.
    rest: Mutex<Duration>,
}

impl<R: Resource> fmt::Debug for Lease<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({}/{}, token {})", self.shared.key, self.seat.index, self.token)
    }
}

impl<R: Resource> Lease<R> {
    pub(crate) fn new(shared: Arc<Shared<R>>, seat: Arc<Seat<R>>, grant: Grant, timeout: Duration) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let renewing = tokio::spawn(keep_renewing(shared.coordinator.clone(), grant, is_over.clone()));
        Self { shared, seat, token: grant.token, timeout, is_over, renewing, rest: Mutex::default() }
    }

    /// The number of the member.
    pub fn index(&self) -> u32 {
        self.seat.index
    }

    /// False once the lease could not be renewed.
    pub fn is_held(&self) -> bool {
        !self.is_over.load(Ordering::Acquire)
    }

    /// Has the member do a job.
    ///
    /// # Errors
    /// That of the job. `Retry` if the lease is over, or if the member rests after a failure: the job has not begun.
    pub async fn run(&self, job: R::Job) -> Result<R::Reply> {
        let (key, index) = (&self.shared.key, self.seat.index);
        let text = match self.try_run(self.timeout, job).await? {
            Ran::Done(reply, _) => return Ok(reply),
            Ran::Refused(_, Refusal::LeaseOver) => {
                format!("the lease of member {index} of pool {key:?} is over, and it is another's: take a new one")
            }
            Ran::Refused(_, Refusal::Retired { .. }) => {
                format!("member {index} of pool {key:?} has gone: drop the lease and take a new one")
            }
            Ran::Refused(_, Refusal::Resting { left, cause }) => {
                *self.rest.lock() = left;
                format!("member {index} of pool {key:?} cannot be used: {cause}; it is tried again in {left:?}")
            }
        };
        Err(Error::new(ErrorKind::Retry, text))
    }

    pub(crate) async fn try_run(&self, timeout: Duration, job: R::Job) -> Result<Ran<R>> {
        if !self.is_held() {
            return Ok(Ran::Refused(job, Refusal::LeaseOver));
        }
        let ticket = Ticket { version: self.shared.roster().view.version, lease: Some(self.token) };
        let _in_flight = self.seat.enter();
        self.seat.member.with_timeout(timeout).run(ticket, job).await
    }

    /// Gives the member back, which has refused a job.
    pub(crate) async fn give_back(self, refusal: Refusal) {
        let version = self.shared.roster().view.version;
        if let Refusal::Resting { left, .. } = &refusal {
            *self.rest.lock() = *left;
        }
        self.shared.heed(&self.seat, refusal, version).await;
    }
}

impl<R: Resource> Drop for Lease<R> {
    fn drop(&mut self) {
        self.renewing.abort();
        let (coordinator, token, rest) = (self.shared.coordinator.clone(), self.token, *self.rest.lock());
        if let Ok(runtime) = Handle::try_current() {
            // If it does not arrive, the lease expires.
            runtime.spawn(async move { coordinator.release(token, rest).await });
        }
    }
}

/// Renews a lease until it is over or this is dropped.
async fn keep_renewing<R: Resource>(coordinator: CoordinatorRef<R>, grant: Grant, is_over: Arc<AtomicBool>) {
    let pause = grant.time / RENEWALS_PER_LEASE;
    let coordinator = coordinator.with_timeout(pause);
    // Counted from before the call that renews it, so that the holder never believes in it for longer than the coordinator.
    let mut until = Instant::now() + grant.time;
    loop {
        sleep(pause).await;
        let asked = Instant::now();
        match coordinator.renew(grant.token).await {
            Ok(Some(left)) => until = asked + left,
            Ok(None) => break,
            Err(_) if Instant::now() < until => {}
            Err(_) => break,
        }
    }
    is_over.store(true, Ordering::Release);
}
