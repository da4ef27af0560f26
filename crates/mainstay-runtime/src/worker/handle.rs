use std::any::{Any, TypeId};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mainstay_core::Result;
use mainstay_core::task::{Home, Scope};

use super::definition::Worker;
use super::options::PoolOptions;
use super::worker_pool::{WorkerName, WorkerPool};
use crate::interfaces::{Interfaces, OfferedInterface};
use crate::router::Services;
use crate::service::definition::check_name;

/// A registered type of worker, with its Rust type erased.
#[derive(Clone)]
pub struct WorkerType {
    name: &'static str,
    open: Arc<dyn Fn(Services) -> Result<Arc<WorkerHandle>> + Send + Sync>,
}

impl fmt::Debug for WorkerType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", WorkerName(self.name))
    }
}

impl WorkerType {
    /// The type of a worker, with the bounds of its pool.
    ///
    /// # Errors
    /// `Invalid` if its name or its bounds are not allowed.
    pub fn of<T: Worker>(options: PoolOptions) -> Result<Self> {
        check_name(T::NAME)?;
        options.check(T::NAME)?;
        let open = move |services| {
            let pool = WorkerPool::<T>::start(options.clone(), services)?;
            let interfaces = Interfaces::<WorkerPool<T>>::of_worker();
            let (list, objects) = (interfaces.list().to_vec(), interfaces.objects(&pool));
            Ok(Arc::new(WorkerHandle {
                name: T::NAME,
                list,
                objects,
                home: Home::current().without_scope(),
                scope: pool.scope().clone(),
                pool,
            }))
        };
        Ok(Self { name: T::NAME, open: Arc::new(open) })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn open(&self, services: Services) -> Result<Arc<WorkerHandle>> {
        (self.open)(services)
    }
}

/// The handle of callers to a worker pool, with the type of worker erased.
pub struct WorkerHandle {
    name: &'static str,
    list: Vec<OfferedInterface>,
    /// The pool once per interface, each as an `Arc` of the interface's own type.
    objects: Vec<(TypeId, Box<dyn Any + Send + Sync>)>,
    home: Home,
    scope: Scope,
    pool: Arc<dyn Closing>,
}

/// A pool that can be stopped.
trait Closing: fmt::Debug + Send + Sync {
    fn close(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    fn kill(&self);
}

impl<T: Worker> Closing for WorkerPool<T> {
    fn close(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { WorkerPool::close(&self).await })
    }

    fn kill(&self) {
        WorkerPool::kill(self);
    }
}

impl fmt::Display for WorkerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WorkerName(self.name).fmt(f)
    }
}

impl fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

impl WorkerHandle {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn offers(&self, object: TypeId) -> bool {
        self.list.iter().any(|interface| interface.object == object)
    }

    /// The pool behind an interface.
    pub(crate) fn object<O: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<O>> {
        let (_, object) = self.objects.iter().find(|(interface, _)| *interface == TypeId::of::<O>())?;
        object.downcast_ref::<Arc<O>>().cloned()
    }

    /// The tokio runtime of its calls.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// The task scope of its calls.
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(super) async fn close(&self) {
        self.pool.clone().close().await;
    }

    pub(super) fn kill(&self) {
        self.pool.kill();
    }
}
