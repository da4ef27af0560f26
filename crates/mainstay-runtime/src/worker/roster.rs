use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::RwLock;

use super::desk::{Desk, WorkerType};
use crate::directory::not_implemented;
use crate::interfaces::OfferedInterface;
use crate::router::Services;

/// The workers of this node.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// By name; `None` once the node has stopped. The pools hold who called them into being, and so are let go of then.
    desks: RwLock<Option<BTreeMap<&'static str, Arc<Desk>>>>,
}

impl Roster {
    /// Starts the pools, once.
    ///
    /// # Errors
    /// `Invalid` if two have one name, and what keeps a worker from being made; then none is left.
    pub(crate) fn open(&self, workers: &[WorkerType], services: &Services) -> Result<()> {
        let mut desks = BTreeMap::new();
        let opened = workers.iter().try_for_each(|worker| {
            let desk = worker.open(services.clone())?;
            match desks.insert(worker.name(), desk) {
                None => Ok(()),
                Some(earlier) => {
                    earlier.kill();
                    Err(Error::invalid(format!(
                        "two workers have the name {:?}: give one another by `name = \"..\"` in its attribute",
                        worker.name()
                    )))
                }
            }
        });
        match opened {
            Ok(()) => *self.desks.write() = Some(desks),
            Err(_) => desks.values().for_each(|desk| desk.kill()),
        }
        opened
    }

    /// The worker that implements an interface.
    ///
    /// # Errors
    /// `NotFound` if there is none, `Invalid` if several do and none is named, or if the one that is named does not.
    pub(crate) fn find(&self, name: Option<&str>, interface: OfferedInterface) -> Result<Arc<Desk>> {
        let desks = self.desks.read();
        let desks = desks.as_ref().ok_or_else(|| {
            Error::fatal(format!("no worker implements {} any more, because the node has stopped", interface.name))
        })?;
        match name {
            Some(name) => by_name(desks, name, interface),
            None => by_interface(desks, interface),
        }
    }

    /// Stops in order.
    pub(crate) async fn close(&self) {
        let desks: Vec<_> = self.desks.read().iter().flat_map(BTreeMap::values).cloned().collect();
        // All at once, so that one that takes long does not give the others more time to go on.
        let closing: Vec<_> = desks.into_iter().map(|desk| async move { desk.close().await }).collect();
        for closed in closing.into_iter().map(mainstay_core::task::spawn).collect::<Vec<_>>() {
            // An error means that it was cut short, and what follows ends it.
            let _ = closed.await;
        }
        self.kill();
    }

    /// Stops everything where it stands.
    pub(crate) fn kill(&self) {
        let desks = self.desks.write().take();
        desks.into_iter().flat_map(BTreeMap::into_values).for_each(|desk| desk.kill());
    }
}

type Desks = BTreeMap<&'static str, Arc<Desk>>;

fn by_name(desks: &Desks, name: &str, interface: OfferedInterface) -> Result<Arc<Desk>> {
    let Some(desk) = desks.get(name) else {
        let known: Vec<_> = desks.keys().copied().collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no worker {name:?} on this node: it has {known}"),
        ));
    };
    if desk.offers(interface.object) {
        return Ok(desk.clone());
    }
    Err(Error::invalid(format!(
        "worker {name} does not implement {}: add it to `implements(..)` in its attribute",
        interface.name
    )))
}

fn by_interface(desks: &Desks, interface: OfferedInterface) -> Result<Arc<Desk>> {
    let mut offering = desks.values().filter(|desk| desk.offers(interface.object));
    let Some(first) = offering.next() else {
        let there: Vec<_> = desks.keys().copied().collect();
        return Err(Error::new(ErrorKind::NotFound, not_implemented("worker", interface.name, "worker", &there)));
    };
    let others: Vec<_> = offering.map(|desk| desk.name()).collect();
    if others.is_empty() {
        return Ok(first.clone());
    }
    Err(Error::invalid(format!(
        "{} is implemented by {} and by {}: say which by `worker_named`",
        interface.name,
        first.name(),
        others.join(", ")
    )))
}
