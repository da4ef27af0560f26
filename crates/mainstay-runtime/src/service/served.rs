use std::sync::Arc;
use std::task::Context;

use crate::call::arrival::Call;
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
