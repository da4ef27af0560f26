use std::fmt;
use std::sync::Arc;
use std::task::Context;

use parking_lot::Mutex;

use crate::call::arrival::Call;
use crate::call::chain::{Line, Link};
use crate::call::contract::Outcome;
use crate::call::current::Current;
use crate::call::finished::Finished;
use crate::call::host::{Host, Progress, SharedMethod, Start};
use crate::service::definition::Service;

/// The object of a service's partition. Its calls run beside each other; locks on what they read and write keep them
/// apart.
pub struct Served<T> {
    object: T,
}

/// Its calls wait for nobody to be let in.
impl<T: Service> Line for Served<T> {
    fn callers(&self) -> Option<&Mutex<Vec<Arc<Link>>>> {
        None
    }

    fn remedy(&self) -> String {
        String::new()
    }

    fn places(&self) -> Option<usize> {
        None
    }
}

impl<T: Service> fmt::Display for Served<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {}", T::NAME)
    }
}

impl<T: Service> Served<T> {
    pub(crate) fn new(object: T) -> Self {
        Self { object }
    }

    pub(crate) fn object(&self) -> &T {
        &self.object
    }
}

impl<T: Service> Host for Served<T> {
    type Target = T;

    fn shared<R, M>(self: &Arc<Self>, method: M, call: Call, _: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: Outcome,
        M: SharedMethod<T, R>,
    {
        let (served, mut current) = (self.clone(), call.current);
        current.count_deadline();
        current.line = Some(self.clone());
        Start::Turn(Progress::Ready(Box::pin(async move {
            let trace = std::mem::take(&mut current.trace);
            let mut current = Some(current);
            let mut running = std::pin::pin!(method.invoke(&served.object));
            let outcome =
                std::future::poll_fn(|cx| Current::within(&mut current, || trace.within(|| running.as_mut().poll(cx))))
                    .await;
            current.map(Current::end_quietly);
            Finished { answer: outcome.into_answer(), hold: None }
        })))
    }
}
