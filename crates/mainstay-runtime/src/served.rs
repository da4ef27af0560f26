use std::sync::Arc;

use crate::host::{Host, SharedMethod, Turn};
use crate::service::Service;

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

    fn shared<R: Send + 'static, M: SharedMethod<T, R>>(self: Arc<Self>, method: M) -> Turn<R> {
        Box::pin(async move { method.invoke(&self.object).await })
    }
}
