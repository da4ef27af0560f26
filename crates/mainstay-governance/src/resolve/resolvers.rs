use std::collections::BTreeMap;
use std::fmt;

use mainstay::{Context, Result, WorkerContext};
use tokio::sync::Mutex;

use super::resolver::Resolver;
use super::settings::ResolverSettings;
use crate::reach::Reach;

/// The resolvers that the actors and workers of one node share: each is a holder, and a holder for every actor would be
/// too many. [`register`](super::register) provides it.
#[derive(Default)]
pub(super) struct Resolvers {
    open: Mutex<BTreeMap<String, Resolver>>,
}

impl fmt::Debug for Resolvers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolvers")
    }
}

impl Resolvers {
    async fn open(&self, reach: &impl Reach, name: &str, settings: ResolverSettings) -> Result<Resolver> {
        let mut open = self.open.lock().await;
        if let Some(resolver) = open.get(name) {
            return Ok(resolver.clone());
        }
        let resolver = Resolver::open(reach, name, settings).await?;
        open.insert(name.to_owned(), resolver.clone());
        Ok(resolver)
    }
}

impl Resolver {
    /// The resolver of a name that the actors of this node share, for use in one of them: opened by the first who asks,
    /// with the settings that this one gives.
    ///
    /// # Errors
    /// As [`open`](Resolver::open).
    pub async fn of_actor(ctx: &Context, name: &str, settings: ResolverSettings) -> Result<Self> {
        ctx.provided::<Resolvers>()?.open(ctx, name, settings).await
    }

    /// As [`of_actor`](Resolver::of_actor), in a worker.
    ///
    /// # Errors
    /// As [`open`](Resolver::open).
    pub async fn of_worker(ctx: &WorkerContext, name: &str, settings: ResolverSettings) -> Result<Self> {
        ctx.provided::<Resolvers>()?.open(ctx, name, settings).await
    }
}
