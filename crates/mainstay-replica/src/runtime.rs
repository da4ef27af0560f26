use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{self, Poll};
use std::time::Duration;

use futures_util::future::{Either, Ready, ready};
use mainstay_core::random;
use mainstay_core::random::ThreadRandom;
use openraft::async_runtime::Select4;
use openraft::{AsyncRuntime, Instant as _, OptionalSend};
use openraft_rt_tokio::{TokioInstant, TokioMpsc, TokioMutex, TokioOneshot, TokioRuntime};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::inline_executor::{self, JoinError, JoinHandle};
use crate::watch::ReplicaWatch;

/// The grid on which timers of all replicas of a process meet.
const GRID: Duration = Duration::from_millis(50);

/// Shorter waits are left as they are.
const ALIGNED_MIN: Duration = Duration::from_millis(10);

/// A wait that is not worth a timer. Openraft lets a microsecond pass between two looks at the log, so that more is found; a
/// timer would make a thousand of it.
const MOMENT: Duration = Duration::from_micros(1);

/// How many moments are passed over while the clock stands still, as it does in a simulation until everybody waits for a
/// timer. Whoever asks again and again until its time has come, as openraft's ticker does, would otherwise never let the
/// clock go on.
const MOMENTS_MAX: u32 = 1_000;

thread_local! {
    /// When a moment was passed over last on this thread, and how many at that time.
    static PASSED_OVER: Cell<Option<(TokioInstant, u32)>> = const { Cell::new(None) };
}

/// True if a wait need not be waited for: its end has come, or is a moment away and the clock goes on.
fn is_over(deadline: TokioInstant) -> bool {
    let now = TokioInstant::now();
    if deadline <= now {
        return true;
    }
    if deadline > now + MOMENT {
        return false;
    }
    let before = PASSED_OVER.get().filter(|(at, _)| *at == now).map_or(0, |(_, count)| count);
    if before >= MOMENTS_MAX {
        return false;
    }
    PASSED_OVER.set(Some((now, before + 1)));
    true
}

static ORIGIN: OnceLock<TokioInstant> = OnceLock::new();

/// Moves the ticks of all replicas to common moments: one wake-up serves dozens of sets, and an idle node sleeps.
///
/// Not on a single-threaded runtime, which is what a simulation uses: there is nothing to save in simulated time, and an
/// origin that all threads share would not follow from the seed.
fn aligned(deadline: TokioInstant) -> TokioInstant {
    let simulated = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::CurrentThread);
    let now = TokioInstant::now();
    let origin = *ORIGIN.get_or_init(|| now);
    if simulated || deadline < now + ALIGNED_MIN {
        return deadline;
    }
    let grid = GRID.as_millis() as u64;
    let steps = ((deadline - origin).as_millis() as u64).div_ceil(grid);
    origin + Duration::from_millis(steps * grid)
}

/// What openraft runs on: our seams for tasks and randomness, tokio's clock and channels.
pub(crate) struct ReplicaRuntime(TokioRuntime);

impl fmt::Debug for ReplicaRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplicaRuntime")
    }
}

impl AsyncRuntime for ReplicaRuntime {
    type JoinError = JoinError;
    type JoinHandle<T: OptionalSend + 'static> = JoinHandle<T>;
    type Sleep = Either<Ready<()>, <TokioRuntime as AsyncRuntime>::Sleep>;
    type Instant = TokioInstant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = ThreadRandom;
    type Mpsc = TokioMpsc;
    type Watch = ReplicaWatch;
    type Oneshot = TokioOneshot;
    type Mutex<T: OptionalSend + 'static> = TokioMutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        inline_executor::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        Either::Right(TokioRuntime::sleep(duration))
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        if is_over(deadline) {
            return Either::Left(ready(()));
        }
        Either::Right(TokioRuntime::sleep_until(aligned(deadline)))
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    /// As openraft would do it, but its main loop goes through here each time it goes round and gets its share there.
    async fn select4<A, B, C, D>(a: A, b: B, c: C, d: D) -> Select4<A::Output, B::Output, C::Output, D::Output>
    where
        A: Future + OptionalSend,
        B: Future + OptionalSend,
        C: Future + OptionalSend,
        D: Future + OptionalSend,
    {
        let mut shared_out = false;
        let (mut a, mut b, mut c, mut d) = (pin!(a), pin!(b), pin!(c), pin!(d));
        poll_fn(|cx| {
            if !shared_out {
                task::ready!(inline_executor::poll_share(cx));
                shared_out = true;
            }
            if let Poll::Ready(value) = a.as_mut().poll(cx) {
                return Poll::Ready(Select4::First(value));
            }
            if let Poll::Ready(value) = b.as_mut().poll(cx) {
                return Poll::Ready(Select4::Second(value));
            }
            if let Poll::Ready(value) = c.as_mut().poll(cx) {
                return Poll::Ready(Select4::Third(value));
            }
            d.as_mut().poll(cx).map(Select4::Fourth)
        })
        .await
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        matches!(error, JoinError::Panicked(_))
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        random::rng()
    }

    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}
