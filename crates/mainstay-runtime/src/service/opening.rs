use mainstay_core::Result;
use mainstay_state::{Collection, StateManager, Transaction};

use crate::provisions::Provided;
use crate::service::context::ServiceContext;

/// The inputs of a service's constructor, within the transaction that creates its collections.
pub struct ServiceOpening<'t> {
    pub(crate) state: &'t StateManager,
    pub(crate) transaction: &'t mut Transaction,
    pub(crate) context: &'t ServiceContext,
}

impl ServiceOpening<'_> {
    /// Opens a collection, creating it if it does not exist.
    ///
    /// # Errors
    /// `Conflict` if a collection of that name and another type exists, `Invalid` for a name that is not allowed.
    pub async fn collection<C: Collection>(&mut self, name: &str) -> Result<C> {
        C::open(self.state, self.transaction, name).await
    }

    /// The state of the partition.
    pub fn state_manager(&self) -> StateManager {
        self.state.clone()
    }

    /// The context of the object.
    pub fn context(&self) -> ServiceContext {
        self.context.clone()
    }

    /// The initial value of a field that is not stored.
    pub fn plain<T: PlainField + AnyThread>(&self) -> T {
        T::initial()
    }

    /// A dependency that the node provides.
    ///
    /// # Errors
    /// `Invalid` if the node does not provide it.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Result<Provided<T>> {
        self.context.provided().map(Provided::new)
    }
}

/// A field that is not stored: it starts as its default, and lives as long as the object.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a plain field, because it has no default",
    label = "this is not `Default`",
    note = "a field that is not kept starts as its default: implement `Default` for `{Self}`",
    note = "if `{Self}` is another name of something that is kept, say so by `#[actor(state)]` or `#[service(collection)]` on \
            the field"
)]
pub trait PlainField {
    /// The first value.
    fn initial() -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Default> PlainField for T {
    fn initial() -> Self {
        T::default()
    }
}

/// A type that can be a field of an object whose calls run on any thread.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of an actor or a service, because their calls run on any thread",
    label = "this belongs to one thread",
    note = "use an `Arc` in place of an `Rc`, and a `Mutex`, an `RwLock` or an atomic in place of a `Cell` or a `RefCell`"
)]
pub trait AnyThread {}

#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> AnyThread for T {}
