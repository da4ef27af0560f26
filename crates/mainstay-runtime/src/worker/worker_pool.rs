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
use super::instance_pool::InstancePool;
use super::lease::{LeaseAttempt, LeaseWaiter, WorkerLease};
use super::opening::WorkerOpening;
use super::options::PoolOptions;
use crate::actor::mailbox_item::ReplyTo;
use crate::call::arrival::Call;
use crate::call::contract::{MethodResult, Reply as _};
use crate::call::current::Current;
use crate::call::finished::Finished;
use crate::call::object_host::{ExclusiveHost, ExclusiveMethod, ObjectHost, Progress, SharedMethod, Start};
use crate::call::turn::Subject;
use crate::open_field::OpenWorker;
use crate::router::Services;

/// The grace period of the calls under way when the node stops; then they are dropped.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// The host of a worker: runs calls on the instances of a pool.
pub struct WorkerPool<T: Worker> {
    pool: Arc<InstancePool<T>>,
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
    /// `Fatal` if the constructor panics.
    pub(super) fn start(options: PoolOptions, services: Services) -> Result<Arc<Self>> {
        let context = WorkerContext::new(T::NAME, services);
        let pool = match T::OPEN {
            OpenWorker::Now(open) => {
                let context = context.clone();
                InstancePool::start(T::NAME, options, move || open(&WorkerOpening::of(&context)))?
            }
            OpenWorker::Later(_) => InstancePool::start_empty(T::NAME, options)?,
        };
        let scope = Scope::new();
        drop(scope.spawn(pool.clone().run_reaper()));
        Ok(Arc::new(Self { pool, scope, context }))
    }

    /// The input of an async constructor; `None` if the constructor is synchronous.
    fn context(&self) -> Option<WorkerContext> {
        matches!(T::OPEN, OpenWorker::Later(_)).then(|| self.context.clone())
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Stops gracefully: calls are refused, and calls under way get a grace period to end.
    pub(super) async fn close(&self) {
        self.pool.close();
        if time::timeout(CLOSE_GRACE, self.scope.ended()).await.is_err() {
            tracing::warn!(
                worker = T::NAME,
                grace_ms = CLOSE_GRACE.as_millis() as u64,
                "calls did not end within the grace period and are dropped"
            );
        }
        self.kill();
        self.scope.ended().await;
    }

    /// Stops at once, dropping the calls under way.
    pub(super) fn kill(&self) {
        self.pool.close();
        self.scope.stop();
    }

    /// Begins a call, or queues it.
    fn begin<R, M, A>(&self, method: M, mut call: Call) -> Start<R::Reply, A>
    where
        R: MethodResult,
        M: ExclusiveMethod<T, R>,
    {
        // The deadline includes the wait for a lease.
        call.current.count_deadline();
        match self.pool.acquire() {
            Ok(LeaseAttempt::Leased(lease)) => {
                Start::Turn(Progress::Ready(Box::pin(work(lease, method, call, self.context()))))
            }
            Ok(LeaseAttempt::Queued(waiter)) => {
                if let Some(chain) = &call.current.chain
                    && let Err(error) = chain.wait_for(self.pool.clone(), Some(call.current.method.name()))
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

/// Runs a call on its leased instance. If the future is dropped before it ends, the instance is not reused.
async fn work<T, R, M>(
    mut lease: WorkerLease<T>,
    method: M,
    call: Call,
    context: Option<WorkerContext>,
) -> Finished<R::Reply>
where
    T: Worker,
    R: MethodResult,
    M: ExclusiveMethod<T, R>,
{
    let mut current = call.current;
    let trace = std::mem::take(&mut current.trace);
    current.resource = Some(lease.resource());
    let mut current = Some(current);
    let outcome = {
        let mut running = std::pin::pin!(async {
            let instance = instance(&mut lease, context).await?;
            Ok(method.invoke(instance).await)
        });
        poll_fn(|cx| Current::within(&mut current, || trace.within(|| running.as_mut().poll(cx)))).await
    };
    lease.end();
    current.map(Current::end_quietly);
    match outcome {
        Ok(outcome) => Finished { answer: R::into_answer(outcome), hold: None },
        Err(error) => Finished::now(R::Reply::failed(error)),
    }
}

/// The instance of a lease, constructed if there is none.
async fn instance<T: Worker>(lease: &mut WorkerLease<T>, context: Option<WorkerContext>) -> Result<&mut T> {
    if let (OpenWorker::Later(open), Some(context), true) = (T::OPEN, context, lease.is_empty()) {
        let cannot =
            |error: Error| error.about(format_args!("an instance of worker {} cannot be constructed", T::NAME));
        lease.fill(open(context).await.map_err(cannot)?);
    }
    lease.begin().ok_or_else(|| Error::fatal(format!("worker {} has no instance for a call: call again", T::NAME)))
}

/// Runs a queued call once it has a lease, unless its caller has given up by then.
async fn work_later<T, R, M>(
    waiter: LeaseWaiter<T>,
    method: M,
    call: Call,
    mut reply: ReplyTo<R::Reply>,
    context: Option<WorkerContext>,
) where
    T: Worker,
    R: MethodResult,
    M: ExclusiveMethod<T, R>,
{
    let lease = tokio::select! {
        biased;
        lease = waiter.wait() => lease,
        () = reply.abandoned() => return,
    };
    let lease = match lease {
        Ok(lease) if reply.claim() => lease,
        Ok(_) => return,
        Err(error) => return reply.refuse(call.current.method, error),
    };
    if let Some(chain) = &call.current.chain {
        chain.admitted();
    }
    let called = call.current.method;
    let mut turn = Box::pin(work(lease, method, call, context));
    // A turn that panicked is not polled again, and its instance is dropped.
    let finished = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| turn.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => {
            Poll::Ready(Err(Subject { method: called.name(), target: &WorkerName(T::NAME) }.panicked(&*panic)))
        }
    });
    match finished.await {
        Ok(finished) => reply.send(finished),
        Err(error) => reply.refuse(called, error),
    }
}

/// A worker in error texts.
pub(super) struct WorkerName(pub(super) &'static str);

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

/// A `&self` method, called with exclusive access all the same.
struct AsExclusive<M>(M);

impl<T: Worker, R, M: SharedMethod<T, R>> ExclusiveMethod<T, R> for AsExclusive<M> {
    fn invoke(self, target: &mut T) -> impl Future<Output = R> + Send {
        self.0.invoke(target)
    }
}

impl<T: Worker> ObjectHost for WorkerPool<T> {
    type Target = T;

    fn shared<R, M>(self: &Arc<Self>, method: M, call: Call, _: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: MethodResult,
        M: SharedMethod<T, R>,
    {
        self.begin::<R, _, _>(AsExclusive(method), call)
    }
}

impl<T: Worker> ExclusiveHost for WorkerPool<T> {
    fn exclusive<R, M>(self: &Arc<Self>, method: M, call: Call, _: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: MethodResult,
        M: ExclusiveMethod<T, R>,
    {
        self.begin::<R, _, _>(method, call)
    }
}
