use crate::service::opening::PlainField;
use crate::worker::context::WorkerContext;

/// What an instance of a worker is made from.
pub struct WorkerOpening<'c> {
    context: &'c WorkerContext,
}

impl<'c> WorkerOpening<'c> {
    /// From the context of its pool.
    pub fn of(context: &'c WorkerContext) -> Self {
        Self { context }
    }

    /// How the instance reaches others.
    pub fn context(&self) -> WorkerContext {
        self.context.clone()
    }

    /// The value of any other field.
    pub fn plain<T: PlainField>(&self) -> T {
        T::initial()
    }
}
