use crate::service::opening::PlainField;
use crate::worker::context::WorkerContext;

/// The inputs of a worker's constructor.
pub struct WorkerOpening<'c> {
    context: &'c WorkerContext,
}

impl<'c> WorkerOpening<'c> {
    /// The inputs, from the context of the pool.
    pub fn of(context: &'c WorkerContext) -> Self {
        Self { context }
    }

    /// The context of the instance, with proxies to other objects.
    pub fn context(&self) -> WorkerContext {
        self.context.clone()
    }

    /// The initial value of any other field.
    pub fn plain<T: PlainField>(&self) -> T {
        T::initial()
    }
}
