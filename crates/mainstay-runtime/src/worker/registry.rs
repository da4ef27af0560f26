use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::RwLock;

use super::handle::{WorkerHandle, WorkerType};
use crate::directory::not_implemented;
use crate::interfaces::OfferedInterface;
use crate::router::Services;

/// The workers of this node.
#[derive(Debug, Default)]
pub(crate) struct WorkerRegistry {
    /// By name; `None` once the node has stopped. The pools hold the services, which hold this registry: dropping the
    /// handles breaks that cycle.
    handles: RwLock<Option<BTreeMap<&'static str, Arc<WorkerHandle>>>>,
}

impl WorkerRegistry {
    /// Starts the pools, once.
    ///
    /// # Errors
    /// `Invalid` if two workers have the same name, and the errors of a constructor. No pool is left running then.
    pub(crate) fn open(&self, workers: &[WorkerType], services: &Services) -> Result<()> {
        let mut handles = BTreeMap::new();
        let opened = workers.iter().try_for_each(|worker| {
            let handle = worker.open(services.clone())?;
            match handles.insert(worker.name(), handle) {
                None => Ok(()),
                Some(earlier) => {
                    earlier.kill();
                    Err(Error::invalid(format!(
                        "two workers have the name {:?}: rename one by `name = \"..\"` in its attribute",
                        worker.name()
                    )))
                }
            }
        });
        match opened {
            Ok(()) => *self.handles.write() = Some(handles),
            Err(_) => handles.values().for_each(|handle| handle.kill()),
        }
        opened
    }

    /// The worker that implements an interface.
    ///
    /// # Errors
    /// `NotFound` if there is none, `Invalid` if several implement it and none is named, or if the named one does not.
    pub(crate) fn find(&self, name: Option<&str>, interface: OfferedInterface) -> Result<Arc<WorkerHandle>> {
        let handles = self.handles.read();
        let handles = handles.as_ref().ok_or_else(|| {
            Error::fatal(format!(
                "no worker implements {} any more, because the node has stopped: start the node again",
                interface.name
            ))
        })?;
        match name {
            Some(name) => by_name(handles, name, interface),
            None => by_interface(handles, interface),
        }
    }

    /// Stops gracefully.
    pub(crate) async fn close(&self) {
        let handles: Vec<_> = self.handles.read().iter().flat_map(BTreeMap::values).cloned().collect();
        // Concurrently, so that a slow pool does not extend the grace period of the others.
        let closing: Vec<_> = handles.into_iter().map(|handle| async move { handle.close().await }).collect();
        for closed in closing.into_iter().map(mainstay_core::task::spawn).collect::<Vec<_>>() {
            // An error means that closing was cancelled; `kill` below ends the pool all the same.
            let _ = closed.await;
        }
        self.kill();
    }

    /// Stops at once, dropping the calls under way.
    pub(crate) fn kill(&self) {
        let handles = self.handles.write().take();
        handles.into_iter().flat_map(BTreeMap::into_values).for_each(|handle| handle.kill());
    }
}

type WorkerHandles = BTreeMap<&'static str, Arc<WorkerHandle>>;

fn by_name(handles: &WorkerHandles, name: &str, interface: OfferedInterface) -> Result<Arc<WorkerHandle>> {
    let Some(handle) = handles.get(name) else {
        let known: Vec<_> = handles.keys().copied().collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no worker {name:?} on this node, which has {known}: correct the name"),
        ));
    };
    if handle.offers(interface.object) {
        return Ok(handle.clone());
    }
    Err(Error::invalid(format!(
        "worker {name} does not implement {}: add it to `implements(..)` in its attribute",
        interface.name
    )))
}

fn by_interface(handles: &WorkerHandles, interface: OfferedInterface) -> Result<Arc<WorkerHandle>> {
    let mut offering = handles.values().filter(|handle| handle.offers(interface.object));
    let Some(first) = offering.next() else {
        let there: Vec<_> = handles.keys().copied().collect();
        return Err(Error::new(ErrorKind::NotFound, not_implemented("worker", interface.name, "worker", &there)));
    };
    let others: Vec<_> = offering.map(|handle| handle.name()).collect();
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
