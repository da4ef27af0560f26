use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use mainstay_core::{Error, Result};

/// Things of the process that its objects use, each by its type: a client, a configuration, a factory.
#[derive(Clone, Default)]
pub struct Provisions {
    by_type: BTreeMap<TypeId, Provision>,
}

#[derive(Clone)]
struct Provision {
    name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for Provisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.by_type.values().map(|provision| provision.name)).finish()
    }
}

impl Provisions {
    /// Adds a thing.
    ///
    /// # Errors
    /// `Invalid` if there is one of its type.
    pub fn add<T: Send + Sync + 'static>(&mut self, value: T) -> Result<()> {
        let name = type_name::<T>();
        let provision = Provision { name, value: Arc::new(value) };
        match self.by_type.insert(TypeId::of::<T>(), provision) {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!(
                "`{name}` is provided twice, and its type is what it is found by: provide it once, or wrap one in a type of its \
                 own"
            ))),
        }
    }

    /// The thing of a type.
    ///
    /// # Errors
    /// `Invalid` if nobody provided it.
    pub fn get<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        let found = self.by_type.get(&TypeId::of::<T>()).and_then(|provision| provision.value.clone().downcast().ok());
        found.ok_or_else(|| {
            Error::invalid(format!(
                "nobody provided `{}` to this node: give it one by `Node::builder().provide(..)`",
                type_name::<T>()
            ))
        })
    }
}

/// What the node was given for its objects, as a field of one: `db: Provided<Db>` is the `Db` of
/// `Node::builder().provide(db)`. It derefs to it, and is cheap to clone.
pub struct Provided<T>(Arc<T>);

impl<T> Provided<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        Self(value)
    }

    /// The thing itself, to be kept elsewhere.
    pub fn share(&self) -> Arc<T> {
        self.0.clone()
    }
}

impl<T> Deref for Provided<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for Provided<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for Provided<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
