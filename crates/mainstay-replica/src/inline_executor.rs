use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker, ready};

use futures_util::FutureExt as _;
use futures_util::task::AtomicWaker;
use mainstay_core::task;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::unconstrained;

use crate::quiet::{quiet, quietly};

tokio::task_local! {
    static CURRENT: Arc<Shared>;
}

thread_local! {
    /// How often the main loop of the bundle that is being polled on this thread may still go round.
    static LOOPS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// How often openraft's main loop goes round in one turn; a commit takes three.
const LOOPS_MAX: u32 = 32;

/// To be polled once by a loop each time it goes round: makes it wait for the next turn when it has had its share of this
/// one, so that a loop that always finds work does not keep the task that polls it.
pub(crate) fn poll_share(cx: &Context<'_>) -> Poll<()> {
    match LOOPS_LEFT.get() {
        Some(0) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        left => {
            LOOPS_LEFT.set(left.map(|left| left - 1));
            Poll::Ready(())
        }
    }
}

/// How many members a bundle takes. Openraft starts six for a replica; whoever finds no place becomes a task of its own.
const MEMBERS_MAX: u32 = 32;

/// How often the members that were woken are polled before other tasks of the runtime get a chance. A commit takes about
/// five rounds.
const ROUNDS_MAX: usize = 64;

/// In the word that says who was woken: there are new members.
const ARRIVED: u64 = 1 << MEMBERS_MAX;

/// In the same word: the members are being polled, and whoever is woken needs no more than its bit.
const POLLING: u64 = 1 << (MEMBERS_MAX + 1);

/// The tasks that openraft starts for a replica, as one task of the runtime.
///
/// Openraft's main task, its state machine and the watcher over its log hand each commit back and forth five times.
/// As tasks of their own, each time costs a turn of the scheduler and, where two are woken at once, the wake-up of
/// another thread, which takes longer than everything else in a commit in memory. In a bundle it costs the setting of a
/// bit; and whoever has given it something to do may [do it](InlineExecutor::run_until_idle) right there.
#[derive(Debug, Clone)]
pub(crate) struct InlineExecutor {
    shared: Arc<Shared>,
}

struct Shared {
    /// One bit for every member that was woken, and [`ARRIVED`] and [`POLLING`].
    woken: AtomicU64,
    /// The task that polls the members.
    task: AtomicWaker,
    arrivals: Mutex<Arrivals>,
    /// Locked by whoever has set [`POLLING`], and so never waited for, except to drop them.
    members: Mutex<Vec<Option<Member>>>,
    /// Called when a poll round ends.
    after_round: OnceLock<AfterRound>,
    scope: task::Scope,
    /// Where the timers and tasks of the members belong.
    runtime: Option<tokio::runtime::Id>,
}

/// Members that are not in their places yet.
struct Arrivals {
    waiting: Vec<Running>,
    /// How many members there are, those who wait included; `None` when nobody is polled any more.
    open: Option<u32>,
}

/// What a round of polls is followed by.
type AfterRound = Box<dyn Fn() + Send + Sync>;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Member {
    running: Running,
    waker: Waker,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({:b})", self.woken.load(Ordering::Relaxed))
    }
}

impl InlineExecutor {
    /// A bundle without members, whose task belongs to a scope.
    pub(crate) fn new(scope: &task::Scope) -> Self {
        let shared = Arc::new(Shared {
            woken: AtomicU64::new(0),
            task: AtomicWaker::new(),
            arrivals: Mutex::new(Arrivals { waiting: Vec::new(), open: Some(0) }),
            members: Mutex::default(),
            after_round: OnceLock::new(),
            scope: scope.clone(),
            runtime: runtime(),
        });
        Self { shared }
    }

    /// Has `call` called whenever a round of polls ends. The first call counts.
    pub(crate) fn after_each_round(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.after_round.set(Box::new(call));
    }

    /// Runs `starting` and then what it has started by [`spawn`].
    pub(crate) async fn gather<F: Future>(&self, starting: F) -> F::Output {
        let output = CURRENT.scope(self.shared.clone(), starting).await;
        // Only now, because a bundle without members ends.
        drop(self.shared.scope.spawn(Driver { shared: self.shared.clone() }));
        output
    }

    /// Runs `cause`, which wakes members, and then polls them at once, in the task that calls this, unless they are being
    /// polled already.
    pub(crate) fn run_until_idle(&self, cause: impl FnOnce()) {
        // The timers and tasks of members must not end with a runtime that somebody just called from.
        let may_poll = runtime() == self.shared.runtime && !self.shared.scope.is_stopped();
        let turn = if may_poll { Turn::take(&self.shared) } else { None };
        quietly(|| {
            cause();
            let Some(turn) = turn else { return };
            // Tokio's share of a turn is the caller's; the members have one of their own. It is done at the first poll.
            let polled = poll_fn(|_| {
                turn.poll_members();
                Poll::Ready(())
            });
            let _ = unconstrained(polled).now_or_never();
        });
    }
}

/// True while members of an executor are polled on this thread, so that a round is going to end.
pub(crate) fn is_polling() -> bool {
    LOOPS_LEFT.get().is_some()
}

fn runtime() -> Option<tokio::runtime::Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// The task of a bundle.
struct Driver {
    shared: Arc<Shared>,
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.task.register(cx.waker());
        if self.shared.close_if_empty() {
            return Poll::Ready(());
        }
        if let Some(turn) = Turn::take(&self.shared) {
            quietly(|| turn.poll_members());
        }
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Whoever comes later must not wait for a turn that never comes.
        let waiting = {
            let mut arrivals = self.shared.arrivals.lock();
            arrivals.open = None;
            std::mem::take(&mut arrivals.waiting)
        };
        drop(waiting);
        // Somebody may be polling them in another task; afterwards nothing of them is left.
        let members = std::mem::take(&mut *self.shared.members.lock());
        drop(members);
    }
}

/// The right to poll the members, of one at a time.
struct Turn<'a> {
    shared: &'a Arc<Shared>,
}

impl<'a> Turn<'a> {
    fn take(shared: &'a Arc<Shared>) -> Option<Self> {
        let before = shared.woken.fetch_or(POLLING, Ordering::AcqRel);
        (before & POLLING == 0).then_some(Self { shared })
    }

    /// Polls whoever was woken until nobody is, or others of the runtime should have a chance.
    fn poll_members(&self) {
        let mut members = self.shared.members.lock();
        LOOPS_LEFT.set(Some(LOOPS_MAX));
        for _ in 0..ROUNDS_MAX {
            let mut woken = self.shared.woken.swap(POLLING, Ordering::AcqRel) & !POLLING;
            if woken == 0 {
                break;
            }
            if woken & ARRIVED != 0 {
                woken &= !ARRIVED;
                self.shared.seat(&mut members);
            }
            while woken != 0 {
                let place = woken.trailing_zeros() as usize;
                woken &= woken - 1;
                self.shared.poll_member(&mut members, place);
            }
            if let Some(after_round) = self.shared.after_round.get() {
                after_round();
            }
        }
        LOOPS_LEFT.set(None);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Whoever was woken since the last look set a bit and nothing else.
        let woken = self.shared.woken.fetch_and(!POLLING, Ordering::AcqRel) & !POLLING;
        if woken != 0 || self.shared.arrivals.lock().open == Some(0) {
            self.shared.task.wake();
        }
    }
}

impl Shared {
    /// Whoever polls looks at all bits before it leaves, and whoever set the first bit has woken the task: only then
    /// there is something to do.
    fn ring(&self, bit: u64) {
        if self.woken.fetch_or(bit, Ordering::AcqRel) == 0 {
            self.task.wake();
        }
    }

    /// Takes a member in, or gives it back if there is no place.
    fn admit(&self, running: Running) -> Result<(), Running> {
        {
            let mut arrivals = self.arrivals.lock();
            match &mut arrivals.open {
                Some(members) if *members < MEMBERS_MAX => *members += 1,
                _ => return Err(running),
            }
            arrivals.waiting.push(running);
        }
        self.ring(ARRIVED);
        Ok(())
    }

    /// Gives places to those who have come.
    fn seat(self: &Arc<Self>, members: &mut Vec<Option<Member>>) {
        let waiting = std::mem::take(&mut self.arrivals.lock().waiting);
        for running in waiting {
            let place = members.iter().position(Option::is_none).unwrap_or(members.len());
            let waker = Waker::from(Arc::new(Bell { shared: self.clone(), bit: 1 << place }));
            waker.wake_by_ref();
            let member = Some(Member { running, waker });
            match members.get_mut(place) {
                Some(free) => *free = member,
                None => members.push(member),
            }
        }
    }

    fn poll_member(&self, members: &mut [Option<Member>], place: usize) {
        // Who has ended may be woken once more.
        let Some(Some(member)) = members.get_mut(place) else { return };
        if member.running.as_mut().poll(&mut Context::from_waker(&member.waker)).is_ready() {
            members[place] = None;
            if let Some(open) = &mut self.arrivals.lock().open {
                *open -= 1;
            }
        }
    }

    /// Takes nobody in any more if nobody is left.
    fn close_if_empty(&self) -> bool {
        let mut arrivals = self.arrivals.lock();
        if arrivals.open == Some(0) {
            arrivals.open = None;
        }
        arrivals.open.is_none()
    }
}

/// Wakes one member.
struct Bell {
    shared: Arc<Shared>,
    bit: u64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.shared.ring(self.bit);
    }
}

/// Starts a task: as a member of the current bundle if there is one, or in the current scope.
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (ended, end) = oneshot::channel();
    let run = async move {
        let result = AssertUnwindSafe(future).catch_unwind().await;
        drop(ended.send(result));
    };
    match CURRENT.try_with(Arc::clone) {
        Ok(executor) => {
            // Whoever polls it, what it starts belongs to the replica.
            let scope = executor.scope.clone();
            if let Err(alone) = executor.admit(Box::pin(async move { scope.enter(run).await })) {
                drop(task::spawn(quiet(alone)));
            }
        }
        Err(_) => drop(task::spawn(quiet(run))),
    }
    JoinHandle { end }
}

/// Waits for the end of a task.
#[derive(Debug)]
pub(crate) struct JoinHandle<T> {
    end: oneshot::Receiver<std::thread::Result<T>>,
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.end).poll(cx)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(panic)) => Err(JoinError::Panicked(message(&*panic))),
            Err(_) => Err(JoinError::Stopped),
        })
    }
}

/// Why a task did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JoinError {
    /// It panicked, and with what words.
    Panicked(String),
    /// It was stopped together with the scope that it belongs to.
    Stopped,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => write!(f, "the task panicked: {message}"),
            Self::Stopped => f.write_str("the task was stopped"),
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
