use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_core::{Error, Result};

use super::context::WorkerContext;
use super::definition::Worker;
use super::opening::WorkerOpening;
use super::options::PoolOptions;
use super::place::{Claim, Place, Waiter};
use super::pool::Pool;
use crate::actor::letter::ReplyTo;
use crate::call::arrival::Call;
use crate::call::contract::{Outcome, Reply as _};
use crate::call::current::Current;
use crate::call::finished::Finished;
use crate::call::host::{ExclusiveHost, ExclusiveMethod, Host, Progress, SharedMethod, Start};
use crate::call::turn::Subject;
use crate::opened::OpenWorker;
use crate::router::Services;

/// How long calls under way may take to end when the node stops; then they are dropped where they stand.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// The pool of a worker, where its calls run.
pub struct WorkerPool<T: Worker> {
    pool: Arc<Pool<T>>,
    scope: Scope,
    context: WorkerContext,
}

impl<T: Worker> fmt::Debug for WorkerPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

impl<T: Worker> WorkerPool<T> {
    /// Starts a pool with its first instances.
    ///
    /// # Errors
    /// `Fatal` if an instance panics when it is made.
    pub(super) fn start(options: PoolOptions, services: Services) -> Result<Arc<Self>> {
        let context = WorkerContext::new(T::NAME, services);
        let pool = match T::OPEN {
            OpenWorker::Now(open) => {
                let context = context.clone();
                Pool::start(T::NAME, options, move || open(&WorkerOpening::of(&context)))?
            }
            OpenWorker::Later(_) => Pool::start_empty(T::NAME, options)?,
        };
        let scope = Scope::new();
        drop(scope.spawn(pool.clone().tend()));
        Ok(Arc::new(Self { pool, scope, context }))
    }

    /// What instances are opened from, if they are.
    fn context(&self) -> Option<WorkerContext> {
        matches!(T::OPEN, OpenWorker::Later(_)).then(|| self.context.clone())
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Stops in order: no call begins any more, and those under way get a grace period to end.
    pub(super) async fn close(&self) {
        self.pool.close();
        if time::timeout(CLOSE_GRACE, self.scope.ended()).await.is_err() {
            tracing::warn!(
                worker = T::NAME,
                grace_ms = CLOSE_GRACE.as_millis() as u64,
                "calls have not ended within the grace period and are dropped"
            );
        }
        self.kill();
        self.scope.ended().await;
    }

    /// Stops everything where it stands.
    pub(super) fn kill(&self) {
        self.pool.close();
        self.scope.stop();
    }

    /// Begins a call, or lets it wait for its turn.
    fn begin<R, M, A>(&self, method: M, mut call: Call) -> Start<R::Reply, A>
    where
        R: Outcome,
        M: ExclusiveMethod<T, R>,
    {
        // The time that it waits for a place counts.
        call.current.count_deadline();
        match self.pool.claim() {
            Ok(Claim::Place(place)) => {
                Start::Turn(Progress::Ready(Box::pin(work(place, method, call, self.context()))))
            }
            Ok(Claim::Waiter(waiter)) => {
                if let Some(chain) = &call.current.chain
                    && let Err(error) = chain.stand_in_line(self.pool.clone(), Some(call.current.method.name()))
                {
                    return Start::Refused(error);
                }
                let (reply, queued) = ReplyTo::new();
                drop(self.scope.spawn(work_later(waiter, method, call, reply, self.context())));
                Start::Queued(queued)
            }
            Err(error) => Start::Refused(error),
        }
    }
}

/// Carries a call out in its place. If it does not come to its end, its instance is not used again.
async fn work<T, R, M>(mut place: Place<T>, method: M, call: Call, context: Option<WorkerContext>) -> Finished<R::Reply>
where
    T: Worker,
    R: Outcome,
    M: ExclusiveMethod<T, R>,
{
    let mut current = call.current;
    let trace = std::mem::take(&mut current.trace);
    current.line = Some(place.line());
    let mut current = Some(current);
    let outcome = {
        let mut running = std::pin::pin!(async {
            let instance = instance(&mut place, context).await?;
            Ok(method.invoke(instance).await)
        });
        poll_fn(|cx| Current::within(&mut current, || trace.within(|| running.as_mut().poll(cx)))).await
    };
    place.end();
    current.map(Current::end_quietly);
    match outcome {
        Ok(outcome) => Finished { answer: R::into_answer(outcome), hold: None },
        Err(error) => Finished::now(R::Reply::failed(error)),
    }
}

/// The instance of a place, which is made if there is none.
async fn instance<T: Worker>(place: &mut Place<T>, context: Option<WorkerContext>) -> Result<&mut T> {
    if let (OpenWorker::Later(open), Some(context), true) = (T::OPEN, context, place.is_empty()) {
        let cannot = |error: Error| error.about(format_args!("an instance of worker {} cannot be made", T::NAME));
        place.fill(open(context).await.map_err(cannot)?);
    }
    place.begin().ok_or_else(|| Error::fatal(format!("worker {} has no instance for a call: call again", T::NAME)))
}

/// Carries a call out when there is a place for it, if its caller still waits for it then.
async fn work_later<T, R, M>(
    waiter: Waiter<T>,
    method: M,
    call: Call,
    mut reply: ReplyTo<R::Reply>,
    context: Option<WorkerContext>,
) where
    T: Worker,
    R: Outcome,
    M: ExclusiveMethod<T, R>,
{
    let place = tokio::select! {
        biased;
        place = waiter.wait() => place,
        () = reply.abandoned() => return,
    };
    let place = match place {
        Ok(place) if reply.claim() => place,
        Ok(_) => return,
        Err(error) => return reply.refuse(call.current.method, error),
    };
    if let Some(chain) = &call.current.chain {
        chain.admitted();
    }
    let called = call.current.method;
    let mut turn = Box::pin(work(place, method, call, context));
    // One that has panicked is not polled again, and its instance is gone.
    let finished = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| turn.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(Subject { method: called.name(), whom: &Named(T::NAME) }.panicked(&*panic))),
    });
    match finished.await {
        Ok(finished) => reply.send(finished),
        Err(error) => reply.refuse(called, error),
    }
}

/// A worker in messages.
pub(super) struct Named(pub(super) &'static str);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

/// A method that could run beside others, and has the instance to itself all the same.
struct Alone<M>(M);

impl<T: Worker, R, M: SharedMethod<T, R>> ExclusiveMethod<T, R> for Alone<M> {
    fn invoke(self, target: &mut T) -> impl Future<Output = R> + Send {
        self.0.invoke(target)
    }
}

impl<T: Worker> Host for WorkerPool<T> {
    type Target = T;

    fn shared<R, M>(self: &Arc<Self>, method: M, call: Call, _: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: Outcome,
        M: SharedMethod<T, R>,
    {
        self.begin::<R, _, _>(Alone(method), call)
    }
}

impl<T: Worker> ExclusiveHost for WorkerPool<T> {
    fn exclusive<R, M>(self: &Arc<Self>, method: M, call: Call, _: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: Outcome,
        M: ExclusiveMethod<T, R>,
    {
        self.begin::<R, _, _>(method, call)
    }
}
