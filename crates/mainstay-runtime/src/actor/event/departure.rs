use std::sync::Arc;

use mainstay_state::actor::{ActorWrites, Published};
use parking_lot::Mutex;

use crate::actor::actor_shared::ActorShared;
use crate::actor::event::definition::AnyEvent;

/// The events that leave an actor with a commit, while they do.
///
/// A turn does not know the numbers of its events: others may run beside it and end before it. The commit that has counted
/// them does, and when it has succeeded no other of this actor is under way; so what leaves with it is the last of what
/// is stored.
#[derive(Default)]
pub(crate) struct Departures {
    /// `None` unless a commit has succeeded whose events somebody listens for.
    leaving: Mutex<Option<Vec<Departure>>>,
}

struct Departure {
    name: &'static str,
    event: Arc<dyn AnyEvent>,
}

impl Departures {
    /// Adds an event to those that leave, if somebody listens.
    pub(super) fn add(&self, name: &'static str, event: impl AnyEvent) {
        if let Some(leaving) = &mut *self.leaving.lock() {
            leaving.push(Departure { name, event: Arc::new(event) });
        }
    }
}

/// To be called when a commit has succeeded, before its outputs leave.
pub(crate) fn begin(shared: &ActorShared, writes: &ActorWrites) {
    if writes.is_publishing() && shared.partition.audience.hears(&shared.id) {
        *shared.departures.leaving.lock() = Some(Vec::new());
    }
}

/// To be called when the outputs of a commit have left: hands the events among them to those who listen.
pub(crate) fn end(shared: &ActorShared, writes: &ActorWrites) {
    if !writes.is_publishing() && !writes.is_deleted() {
        return;
    }
    let leaving = shared.departures.leaving.lock().take().unwrap_or_default();
    let (before, leaving) = match writes.is_deleted() {
        true => split(leaving, |name| writes.published(name)),
        false => (Vec::new(), leaving),
    };
    // Their count was deleted with the actor.
    before.into_iter().for_each(|departure| deliver(shared, departure, None));
    if writes.is_deleted() && !shared.partition.audience.is_empty() {
        shared.partition.audience.all_listeners(&shared.id).iter().for_each(|inbox| inbox.delete());
    }
    let mut numbers: Vec<(&str, Option<Published>)> = Vec::new();
    for departure in leaving {
        let place = numbers.iter().position(|(name, _)| *name == departure.name).unwrap_or_else(|| {
            numbers.push((departure.name, first(shared, departure.name, writes.published(departure.name))));
            numbers.len() - 1
        });
        // If it is not known, they are counted as missed when the next one leaves.
        let Some(number) = &mut numbers[place].1 else { continue };
        let this = *number;
        number.count = number.count.saturating_add(1);
        deliver(shared, departure, Some(this));
    }
}

/// The number of the first of the last so many events.
fn first(shared: &ActorShared, event: &str, count: u64) -> Option<Published> {
    match shared.partition.store().and_then(|store| store.published(&shared.id, event)) {
        Ok(last) => last.map(|last| Published { count: last.count.saturating_sub(count) + 1, ..last }),
        Err(error) => {
            tracing::debug!(actor = %shared, event, ?error, "events are not delivered: their numbers cannot be read");
            None
        }
    }
}

fn deliver(shared: &ActorShared, departure: Departure, number: Option<Published>) {
    for inbox in shared.partition.audience.listeners(&shared.id, departure.name) {
        inbox.push(departure.event.clone(), number, shared.partition.settings.events_buffer);
    }
}

/// Parts what left before the actor was deleted from what left after it, of which there are so many of each name.
fn split(leaving: Vec<Departure>, count: impl Fn(&str) -> u64) -> (Vec<Departure>, Vec<Departure>) {
    let mut seen: Vec<(&str, u64)> = Vec::new();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for departure in leaving.into_iter().rev() {
        let place = seen.iter().position(|(name, _)| *name == departure.name).unwrap_or_else(|| {
            seen.push((departure.name, 0));
            seen.len() - 1
        });
        seen[place].1 += 1;
        if seen[place].1 > count(departure.name) { before.push(departure) } else { after.push(departure) }
    }
    before.reverse();
    after.reverse();
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    #[derive(Clone, serde::Serialize, serde::Deserialize)]
    struct Said(u32);

    impl Event for Said {
        const NAME: &'static str = "Said";
    }

    #[test]
    fn the_last_ones_of_a_name_are_those_after_the_deletion() {
        let leaving = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("c", 5)];
        let leaving = leaving.map(|(name, n)| Departure { name, event: Arc::new(Said(n)) });
        let (before, after) = split(leaving.into(), |name| u64::from(name == "a") * 2);
        let numbers = |part: Vec<Departure>| -> Vec<u32> {
            part.iter().map(|departure| super::super::definition::read::<Said>(&*departure.event).unwrap().0).collect()
        };
        assert_eq!((numbers(before), numbers(after)), (vec![1, 2, 5], vec![3, 4]));
    }
}
