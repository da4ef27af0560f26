use std::fmt;
use std::sync::Arc;
use std::task::Context;

use mainstay_state::EpochLease;
use parking_lot::Mutex;

use crate::call::arrival::Call;
use crate::call::chain::{HeldResource, Link, TurnIdentity};
use crate::call::contract::MethodResult;
use crate::call::current::Current;
use crate::call::finished::{Finished, MethodAnswer};
use crate::call::object_host::{ObjectHost, Progress, SharedMethod, Start};
use crate::call::unproven::unproven;
use crate::service::definition::Service;

/// The host of a service's object. Its calls run concurrently; the locks of the collections isolate them.
pub struct ServiceHost<T> {
    object: T,
    /// The lease without which no answer leaves: its methods may answer from memory.
    lease: EpochLease,
}

/// A service holds no resource: its calls start at once, and so no call can wait for its turn.
impl<T: Service> HeldResource for ServiceHost<T> {
    fn callers(&self) -> Option<&Mutex<Vec<Arc<Link>>>> {
        None
    }

    fn remedy(&self) -> String {
        String::new()
    }

    fn lease(&self) -> Option<&EpochLease> {
        Some(&self.lease)
    }

    fn capacity(&self) -> Option<usize> {
        None
    }

    fn identity(&self) -> Option<TurnIdentity> {
        Some(TurnIdentity { service: T::NAME.into(), actor: None })
    }
}

impl<T: Service> fmt::Display for ServiceHost<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {}", T::NAME)
    }
}

impl<T: Service> ServiceHost<T> {
    pub(crate) fn new(object: T, lease: EpochLease) -> Self {
        Self { object, lease }
    }

    pub(crate) fn object(&self) -> &T {
        &self.object
    }
}

impl<T: Service> ObjectHost for ServiceHost<T> {
    type Target = T;

    fn shared<R, M>(self: &Arc<Self>, method: M, call: Call, _: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: MethodResult,
        M: SharedMethod<T, R>,
    {
        let (served, mut current) = (self.clone(), call.current);
        current.count_deadline();
        current.resource = Some(self.clone());
        Start::Turn(Progress::Ready(Box::pin(async move {
            let trace = std::mem::take(&mut current.trace);
            let mut current = Some(current);
            let mut running = std::pin::pin!(method.invoke(&served.object));
            let outcome =
                std::future::poll_fn(|cx| Current::within(&mut current, || trace.within(|| running.as_mut().poll(cx))))
                    .await;
            let has_effects = current.as_ref().is_some_and(|current| current.has_effects);
            current.map(Current::end_quietly);
            if let Err(refusal) = served.lease.check() {
                return Finished::failed(unproven(refusal, has_effects));
            }
            let mut answer = outcome.into_answer();
            if let MethodAnswer::Later(later) = &mut answer {
                later.has_effects = has_effects;
            }
            Finished { answer, hold: None }
        })))
    }
}
