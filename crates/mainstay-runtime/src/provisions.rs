use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use mainstay_core::{Error, Result};

/// Dependencies that a node provides to its objects, found by type: a client, a configuration, a factory.
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
    /// Adds a value.
    ///
    /// # Errors
    /// `Invalid` if a value of its type was added before.
    pub fn add<T: Send + Sync + 'static>(&mut self, value: T) -> Result<()> {
        let name = type_name::<T>();
        let provision = Provision { name, value: Arc::new(value) };
        match self.by_type.insert(TypeId::of::<T>(), provision) {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!(
                "`{name}` is provided twice, and values are found by their type: provide it once, or wrap one in a type of its \
                 own"
            ))),
        }
    }

    /// The value of a type.
    ///
    /// # Errors
    /// `Invalid` if no value of the type was added.
    pub fn get<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        let found = self.by_type.get(&TypeId::of::<T>()).and_then(|provision| provision.value.clone().downcast().ok());
        found.ok_or_else(|| {
            Error::invalid(format!(
                "`{}` is not provided by this node: provide it by `Node::builder().provide(..)`",
                type_name::<T>()
            ))
        })
    }
}

/// A dependency that the node provides, as a field of an object: `db: Provided<Db>` is the `Db` of
/// `Node::builder().provide(db)`. It derefs to it, and is cheap to clone.
pub struct Provided<T>(Arc<T>);

impl<T> Provided<T> {
    /// A thing that no node has provided, for a unit test that makes an object by hand.
    pub fn new(value: impl Into<Arc<T>>) -> Self {
        Self(value.into())
    }

    /// A shared handle to the value, independent of this field.
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
