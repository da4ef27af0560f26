use std::any::{Any, TypeId};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mainstay_core::Result;
use mainstay_core::task::{Home, Scope};

use super::definition::Worker;
use super::host::{Named, WorkerPool};
use super::options::PoolOptions;
use crate::interfaces::{Interfaces, OfferedInterface};
use crate::router::Services;
use crate::service::definition::check_name;

/// A type of worker, whatever Rust type is behind it.
#[derive(Clone)]
pub struct WorkerType {
    name: &'static str,
    open: Arc<dyn Fn(Services) -> Result<Arc<Desk>> + Send + Sync>,
}

impl fmt::Debug for WorkerType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Named(self.name))
    }
}

impl WorkerType {
    /// The type of a worker, with the bounds of its pool.
    ///
    /// # Errors
    /// `Invalid` if its name or its bounds cannot be.
    pub fn of<T: Worker>(options: PoolOptions) -> Result<Self> {
        check_name(T::NAME)?;
        options.check(T::NAME)?;
        let open = move |services| {
            let pool = WorkerPool::<T>::start(options.clone(), services)?;
            let interfaces = Interfaces::<WorkerPool<T>>::of_worker();
            let (list, objects) = (interfaces.list().to_vec(), interfaces.objects(&pool));
            Ok(Arc::new(Desk {
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

    pub(super) fn open(&self, services: Services) -> Result<Arc<Desk>> {
        (self.open)(services)
    }
}

/// A pool as its callers see it, whatever type of worker is in it.
pub struct Desk {
    name: &'static str,
    list: Vec<OfferedInterface>,
    /// The pool behind each of its interfaces: an `Arc` of the interface's own type.
    objects: Vec<(TypeId, Box<dyn Any + Send + Sync>)>,
    home: Home,
    scope: Scope,
    pool: Arc<dyn Closing>,
}

/// A pool that can be ended.
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

impl fmt::Display for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Named(self.name).fmt(f)
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

impl Desk {
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

    /// Where its calls are made.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Where its calls run.
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
