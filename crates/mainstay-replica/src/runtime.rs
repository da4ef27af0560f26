use std::fmt;
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use mainstay_core::random::ThreadRandom;
use mainstay_core::{random, task};
use openraft::{AsyncRuntime, Instant as _, OptionalSend};
use openraft_rt_tokio::{TokioInstant, TokioMpsc, TokioMutex, TokioOneshot, TokioRuntime, TokioWatch};
use tokio::runtime::{Handle, RuntimeFlavor};

/// The grid on which timers of all replicas of a process meet.
const GRID: Duration = Duration::from_millis(50);

/// Shorter waits are left as they are.
const ALIGNED_MIN: Duration = Duration::from_millis(10);

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
    type JoinError = task::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = task::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = TokioInstant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = ThreadRandom;
    type Mpsc = TokioMpsc;
    type Watch = TokioWatch;
    type Oneshot = TokioOneshot;
    type Mutex<T: OptionalSend + 'static> = TokioMutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        task::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(aligned(deadline))
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        error.is_panic()
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
