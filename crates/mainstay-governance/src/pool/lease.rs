use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mainstay::{Error, ErrorKind, Proxy as _, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::lease::{self, HeldLease};
use crate::owner::{Fence, Resource};
use crate::pool::interface::{CoordinatorRef, Grant, JobTicket, REVOKE_TIME_MAX, Ran, Refusal};
use crate::pool::resource_pool::PoolCore;
use crate::pool::roster::MemberHandle;

/// A member of a pool, for one holder alone until this is dropped.
///
/// It is renewed by itself for as long as the process lives, also across a restart of the coordinator. If that fails for too
/// long, the member is given to the next in line, and jobs of this lease are refused.
///
/// Whatever its jobs have left in the resource, such as a transaction that was begun, is gone when it is dropped:
/// [`Resource::reset`]. All its jobs are done by one opening of the resource; if that is closed between two of them, the lease
/// is of no more use.
pub struct Lease<R: Resource> {
    shared: Arc<PoolCore<R>>,
    handle: Arc<MemberHandle<R>>,
    token: u64,
    timeout: Duration,
    term: Arc<Mutex<HeldLease>>,
    /// The token of the opening that has done jobs of this lease; 0 before the first.
    opening: AtomicU64,
    /// True once a job was given to the member, which may so have something of this lease.
    is_used: AtomicBool,
    renewing: JoinHandle<()>,
    /// How long the member is to be left alone after this.
    rest: Mutex<Duration>,
}

impl<R: Resource> fmt::Debug for Lease<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({}/{}, token {})", self.shared.key, self.handle.index, self.token)
    }
}

impl<R: Resource> Lease<R> {
    /// A lease that was granted, after it was asked for at this time.
    pub(crate) fn new(
        shared: Arc<PoolCore<R>>,
        handle: Arc<MemberHandle<R>>,
        grant: Grant,
        asked: Instant,
        timeout: Duration,
    ) -> Self {
        let (now, pause) = (lease::now(), lease::renewal_pause(grant.time));
        // It was granted some time since. After a long wait nobody knows when, and so it is renewed at once.
        let (begun, pause) = if now - asked < pause { (asked, pause) } else { (now, Duration::ZERO) };
        let term = Arc::new(Mutex::new(HeldLease::begun(begun, grant.time)));
        let renewing = tokio::spawn(keep_renewing(shared.coordinator.clone(), grant, pause, term.clone()));
        let (token, opening) = (grant.token, AtomicU64::new(0));
        let (is_used, rest) = (AtomicBool::new(false), Mutex::default());
        Self { shared, handle, token, timeout, term, opening, is_used, renewing, rest }
    }

    /// The number of the member.
    pub fn index(&self) -> u32 {
        self.handle.index
    }

    /// False once the lease could not be renewed in time, by the clock: also in a process that has stood still meanwhile.
    pub fn is_held(&self) -> bool {
        is_held(&self.term)
    }

    /// Has the member do a job.
    ///
    /// # Errors
    /// That of the job. `Retry` if the lease is over, if the member rests after a failure, or if its resource was closed since
    /// the last job of this lease, and with it what that has begun: the job has not begun.
    pub async fn run(&self, job: R::Job) -> Result<R::Reply> {
        let (key, index) = (&self.shared.key, self.handle.index);
        let text = match self.try_run(self.timeout, job).await? {
            Ran::Done { reply, .. } => return Ok(reply),
            Ran::Refused(_, Refusal::LeaseOver) => {
                format!("the lease of member {index} of pool {key:?} is over, and it is another's: take a new one")
            }
            Ran::Refused(_, Refusal::Reopened) => format!(
                "member {index} of pool {key:?} was closed since the last job of this lease, and what that has begun is gone: \
                 take a new one and begin again"
            ),
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
        let opening = Fence::new(self.opening.load(Ordering::Relaxed));
        let opening = Some(opening).filter(|opening| *opening != Fence::NONE);
        let ticket = JobTicket { version: self.shared.roster().view.version, lease: Some(self.token), opening };
        self.is_used.store(true, Ordering::Relaxed);
        let _in_flight = self.handle.enter();
        let ran = self.handle.member.with_timeout(timeout).run(ticket, job).await?;
        if let Ran::Done { opening, .. } = &ran {
            self.opening.store(opening.get(), Ordering::Relaxed);
        }
        Ok(ran)
    }

    /// Gives the member back, which has refused a job.
    pub(crate) async fn give_back(self, refusal: Refusal) {
        let version = self.shared.roster().view.version;
        if let Refusal::Resting { left, .. } = &refusal {
            *self.rest.lock() = *left;
        }
        self.shared.heed(&self.handle, refusal, version).await;
    }
}

impl<R: Resource> Drop for Lease<R> {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else {
            // It expires.
            self.renewing.abort();
            return;
        };
        let (coordinator, handle, term) = (self.shared.coordinator.clone(), self.handle.clone(), self.term.clone());
        let (token, rest, renewing) = (self.token, *self.rest.lock(), self.renewing.abort_handle());
        let is_used = self.is_used.load(Ordering::Relaxed);
        runtime.spawn(async move {
            if is_used {
                // First, so that what this holder has left is gone whoever comes next, and whenever. If it does not arrive, the
                // member does it before the first job of another lease.
                let _ = handle.member.with_timeout(REVOKE_TIME_MAX).revoke(token).await;
            }
            renewing.abort();
            // One that is over may be another's. If this does not arrive, the lease expires.
            if is_held(&term) {
                let _ = coordinator.release(handle.index, token, rest).await;
            }
        });
    }
}

/// True while the lease that was granted holds. One that was over once stays so.
fn is_held(term: &Mutex<HeldLease>) -> bool {
    !term.lock().left_of(HeldLease::FIRST, lease::now()).is_zero()
}

/// Renews a lease until it is over or this is dropped.
async fn keep_renewing<R: Resource>(
    coordinator: CoordinatorRef<R>,
    grant: Grant,
    mut pause: Duration,
    term: Arc<Mutex<HeldLease>>,
) {
    let period = lease::renewal_pause(grant.time);
    let coordinator = coordinator.with_timeout(period);
    while is_held(&term) {
        sleep(std::mem::replace(&mut pause, period)).await;
        // Counted from before the call that renews it, so that the holder never believes in it for longer than the coordinator.
        let asked = lease::now();
        match coordinator.renew(grant.index, grant.token).await {
            Ok(Some(left)) if term.lock().renew(asked, left, lease::now()) => {}
            Ok(_) => break,
            Err(_) => {}
        }
    }
    term.lock().end(lease::now());
}
