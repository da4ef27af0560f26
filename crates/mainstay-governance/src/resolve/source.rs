use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mainstay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::entity::{Entity, checked};
use super::physical_resource::PhysicalResource;

/// How long a source may take to load its catalog.
pub const SOURCE_LOAD_TIME_MAX: Duration = Duration::from_secs(30);

/// How many entities a catalog may have.
pub const CATALOG_ENTITIES_MAX: usize = 1 << 20;

/// Somebody else who knows where entities live: a table, a file, another service. A resolver copies what it says now and
/// then, and answers from its copy.
///
/// To be correct: `load` may be called at any time and by whichever node has the resolver's map. What it returns must be
/// complete in itself: it is made to hold from one version to the next.
pub trait ResolutionSource: Send + Sync + 'static {
    /// What there is now.
    fn load(&self) -> impl Future<Output = Result<Catalog>> + Send;
}

/// What a source says. Resources that it does not name stay, and so do entities: it adds and moves, and removes nothing.
///
/// A resource that was [drained](super::Resolver::drain_resource) stays drained whatever a source says of it, and of what is
/// on it, until it is [added](super::Resolver::add_resource) again by hand. One that was removed is new when a source names it:
/// take it out of the source first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    /// The resources that there are to be.
    pub resources: Vec<PhysicalResource>,
    /// Which resource each of these entities is to be on.
    pub entities: Vec<(Entity, String)>,
}

impl Catalog {
    pub(super) fn check(&self) -> Result<()> {
        if self.entities.len() > CATALOG_ENTITIES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "catalog of {} entities exceeds CATALOG_ENTITIES_MAX of {CATALOG_ENTITIES_MAX}: leave out those \
                     that the policy may place",
                    self.entities.len()
                ),
            ));
        }
        self.resources.iter().try_for_each(PhysicalResource::check)?;
        self.entities.iter().try_for_each(|(entity, _)| checked(entity.clone()).map(drop))
    }
}

/// How fresh a resolver's copy of its source is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// How long ago the source was last copied; `None` if it never was.
    pub age: Option<Duration>,
    /// Why the last try has failed, if it has.
    pub refusal: Option<String>,
}

/// The sources of this process, by the names of their resolvers: given to a node by
/// [`serve_with`](super::serve_with).
#[derive(Default)]
pub struct Sources {
    by_resolver: BTreeMap<String, Arc<dyn AnySource>>,
}

impl Sources {
    /// No source.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with the source of a resolver.
    #[must_use]
    pub fn with(mut self, resolver: impl Into<String>, source: impl ResolutionSource) -> Self {
        self.by_resolver.insert(resolver.into(), Arc::new(source));
        self
    }

    pub(super) fn named(&self, resolver: &str) -> Result<Loading> {
        self.by_resolver.get(resolver).cloned().map(Loading).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!(
                    "resolver {resolver:?} has no source: give it one by `Sources::with` and \
                         `resolve::serve_with(builder, sources)`"
                ),
            )
        })
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sources").field(&self.by_resolver.keys()).finish()
    }
}

/// A source whose catalog can be loaded, within a bound of time.
pub(super) struct Loading(Arc<dyn AnySource>);

impl Loading {
    pub(super) async fn load(self) -> Result<Catalog> {
        match tokio::time::timeout(SOURCE_LOAD_TIME_MAX, self.0.load_any()).await {
            Ok(loaded) => loaded,
            Err(_) => Err(Error::new(
                ErrorKind::Timeout,
                format!("the source took longer than {SOURCE_LOAD_TIME_MAX:?} (SOURCE_LOAD_TIME_MAX)"),
            )),
        }
    }
}

/// A [`ResolutionSource`] of whatever type.
trait AnySource: Send + Sync {
    fn load_any(&self) -> Pin<Box<dyn Future<Output = Result<Catalog>> + Send + '_>>;
}

impl<S: ResolutionSource> AnySource for S {
    fn load_any(&self) -> Pin<Box<dyn Future<Output = Result<Catalog>> + Send + '_>> {
        Box::pin(self.load())
    }
}
