use std::fmt;
use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use mainstay::Result;
use mainstay::service::Services;

use super::resolver::Resolver;
use super::settings::ResolverSettings;
use super::view::View;

/// The resolvers of one node: those that its actors, services and workers share, because each is a holder, and a holder for
/// every actor would be too many; and all holders, to leave in order. [`serve`](super::serve) provides it.
#[derive(Default)]
pub(super) struct Resolvers {
    /// By name and settings, of which there are few.
    shared: tokio::sync::Mutex<Vec<(String, ResolverSettings, Resolver)>>,
    holders: parking_lot::Mutex<Vec<Weak<View>>>,
}

impl fmt::Debug for Resolvers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolvers")
    }
}

impl Resolvers {
    /// The resolver of a name, which is opened by the first who asks for it with these settings.
    pub(super) async fn open(&self, services: &Services, name: &str, settings: ResolverSettings) -> Result<Resolver> {
        let mut shared = self.shared.lock().await;
        let known = shared.iter().find(|(known, theirs, _)| known == name && *theirs == settings);
        if let Some((_, _, resolver)) = known {
            return Ok(resolver.clone());
        }
        let resolver = Resolver::open_own(services, name, settings.clone()).await?;
        shared.push((name.to_owned(), settings, resolver.clone()));
        Ok(resolver)
    }

    /// Takes note of a holder.
    pub(super) fn note(&self, view: &Arc<View>) {
        let mut holders = self.holders.lock();
        holders.retain(|holder| holder.strong_count() > 0);
        holders.push(Arc::downgrade(view));
    }

    /// Gives the leases of all holders back, because the node is about to stop.
    pub(super) async fn leave(&self) {
        let holders: Vec<Arc<View>> = self.holders.lock().iter().filter_map(Weak::upgrade).collect();
        join_all(holders.iter().map(|view| view.leave())).await;
    }
}
