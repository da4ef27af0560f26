use crate::service::opening::PlainField;
use crate::worker::context::WorkerContext;

/// What an instance of a worker is made from.
pub struct WorkerOpening<'c> {
    pub(super) context: &'c WorkerContext,
}

impl WorkerOpening<'_> {
    /// How the instance reaches others.
    pub fn context(&self) -> WorkerContext {
        self.context.clone()
    }

    /// The value of any other field.
    pub fn plain<T: PlainField>(&self) -> T {
        T::initial()
    }
}
