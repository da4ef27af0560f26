use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use mainstay_core::{ActorId, Error, ErrorKind, Result};
use parking_lot::RwLock;

use crate::actor::event::inbox::Inbox;

/// How many subscriptions to actors of one partition there may be on a node; beyond it is `Overloaded`. Each holds what it
/// has not taken yet.
pub(crate) const SUBSCRIPTIONS_PER_PARTITION_MAX: usize = 65_536;

/// Who listens to the actors of a partition on this node, whether or not the partition is open here.
#[derive(Default)]
pub(crate) struct Audience {
    /// How many there are, for those who publish to nobody.
    count: AtomicUsize,
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    listeners: HashMap<ActorId, Vec<Listener>, FixedState>,
    is_stopped: bool,
}

struct Listener {
    event: Arc<str>,
    inbox: Arc<Inbox>,
}

impl Audience {
    /// Adds a listener. False if the node has stopped.
    ///
    /// # Errors
    /// `Overloaded` if there are too many.
    pub(crate) fn add(&self, actor: &ActorId, event: Arc<str>, inbox: Arc<Inbox>) -> Result<bool> {
        let mut table = self.table.write();
        if table.is_stopped {
            return Ok(false);
        }
        if self.count.load(Ordering::Relaxed) >= SUBSCRIPTIONS_PER_PARTITION_MAX {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "there are {SUBSCRIPTIONS_PER_PARTITION_MAX} subscriptions to actors of the partition already \
                     (SUBSCRIPTIONS_PER_PARTITION_MAX): drop some, or share one"
                ),
            ));
        }
        table.listeners.entry(actor.clone()).or_default().push(Listener { event, inbox });
        self.count.fetch_add(1, Ordering::Release);
        Ok(true)
    }

    /// Removes a listener, and every trace of it.
    pub(crate) fn remove(&self, actor: &ActorId, inbox: &Arc<Inbox>) {
        let mut table = self.table.write();
        let Some(listeners) = table.listeners.get_mut(actor) else { return };
        let Some(place) = listeners.iter().position(|listener| Arc::ptr_eq(&listener.inbox, inbox)) else { return };
        let removed = listeners.swap_remove(place);
        if listeners.is_empty() {
            table.listeners.remove(actor);
        }
        self.count.fetch_sub(1, Ordering::Release);
        drop(table);
        drop(removed);
    }

    /// True if nobody listens to any actor.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// True if somebody listens to the actor.
    pub(crate) fn hears(&self, actor: &ActorId) -> bool {
        !self.is_empty() && self.table.read().listeners.contains_key(actor)
    }

    /// Those who listen to events of a type of the actor.
    pub(crate) fn listeners(&self, actor: &ActorId, event: &str) -> Vec<Arc<Inbox>> {
        self.select(actor, |listener| *listener.event == *event)
    }

    /// All who listen to the actor.
    pub(crate) fn all_listeners(&self, actor: &ActorId) -> Vec<Arc<Inbox>> {
        self.select(actor, |_| true)
    }

    fn select(&self, actor: &ActorId, which: impl Fn(&Listener) -> bool) -> Vec<Arc<Inbox>> {
        let table = self.table.read();
        let listeners = table.listeners.get(actor).into_iter().flatten();
        listeners.filter(|listener| which(listener)).map(|listener| listener.inbox.clone()).collect()
    }

    /// Tells everybody that nothing will come any more.
    pub(crate) fn stop(&self) {
        let mut table = self.table.write();
        table.is_stopped = true;
        let listeners: Vec<_> = table.listeners.values().flatten().map(|listener| listener.inbox.clone()).collect();
        drop(table);
        listeners.iter().for_each(|inbox| inbox.stop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_that_nobody_listens_to_any_more_leaves_nothing_behind() {
        let audience = Audience::default();
        let (one, two) = (Arc::new(Inbox::default()), Arc::new(Inbox::default()));
        let (alice, bob) = (ActorId::from("alice"), ActorId::from("bob"));
        assert!(audience.add(&alice, "Moved".into(), one.clone()).unwrap());
        assert!(audience.add(&alice, "Left".into(), two.clone()).unwrap());
        assert!(audience.hears(&alice) && !audience.hears(&bob));
        assert_eq!((audience.listeners(&alice, "Moved").len(), audience.all_listeners(&alice).len()), (1, 2));

        audience.remove(&alice, &one);
        assert!(audience.listeners(&alice, "Moved").is_empty());
        audience.remove(&bob, &two);
        audience.remove(&alice, &two);
        audience.remove(&alice, &two);
        assert!(audience.is_empty() && audience.table.read().listeners.is_empty());
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&two)), (1, 1));
    }

    #[test]
    fn there_is_a_limit_with_a_name() {
        let audience = Audience::default();
        audience.count.store(SUBSCRIPTIONS_PER_PARTITION_MAX - 1, Ordering::Relaxed);
        assert!(audience.add(&ActorId::from(1), "Moved".into(), Arc::default()).unwrap());
        let error = audience.add(&ActorId::from(1), "Moved".into(), Arc::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Overloaded);
        assert!(error.to_string().contains("SUBSCRIPTIONS_PER_PARTITION_MAX"), "{error}");
    }

    #[test]
    fn nobody_is_added_after_the_end() {
        let audience = Audience::default();
        audience.stop();
        assert!(!audience.add(&ActorId::from(1), "Moved".into(), Arc::default()).unwrap());
        assert!(audience.is_empty());
    }
}
