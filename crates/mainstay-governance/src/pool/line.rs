use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::pool::Priority;

/// Who waits for a lease, in the order in which they get one.
///
/// Whoever waits gains a level of priority with each `ageing` that passes. As all gain at the same pace, it comes to the same
/// that a priority is a head start in time: the order is settled when somebody joins, and nobody waits behind an endless
/// stream of more urgent ones.
pub(crate) struct Line<W> {
    begin: Instant,
    ageing: Duration,
    waiting: BTreeMap<Place, W>,
    joined: u64,
}

/// A place in line: when somebody joined, in microseconds, less the head start; then who joined first.
type Place = (i128, u64);

impl<W> Line<W> {
    pub(crate) fn new(ageing: Duration, now: Instant) -> Self {
        Self { begin: now, ageing, waiting: BTreeMap::new(), joined: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn join(&mut self, waiter: W, priority: Priority, now: Instant) {
        let since = now.saturating_duration_since(self.begin).as_micros() as i128;
        let head_start = self.ageing.as_micros() as i128 * i128::from(priority.0);
        self.joined += 1;
        self.waiting.insert((since - head_start, self.joined), waiter);
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Option<W> {
        self.waiting.pop_first().map(|(_, waiter)| waiter)
    }

    /// Lets those leave who do not wait any more.
    pub(crate) fn retain(&mut self, mut waits: impl FnMut(&W) -> bool) {
        self.waiting.retain(|_, waiter| waits(waiter));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &W> {
        self.waiting.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGEING: Duration = Duration::from_secs(5);

    fn order(mut line: Line<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| line.next()).collect()
    }

    #[test]
    fn those_of_one_priority_come_in_the_order_in_which_they_joined() {
        let now = Instant::now();
        let mut line = Line::new(AGEING, now);
        for name in ["a", "b", "c"] {
            line.join(name, Priority::NORMAL, now);
        }
        assert_eq!(order(line), ["a", "b", "c"]);
    }

    #[test]
    fn the_more_urgent_come_first_until_others_have_waited_long_enough() {
        let now = Instant::now();
        let mut line = Line::new(AGEING, now);
        line.join("low", Priority::LOW, now);
        line.join("normal", Priority::NORMAL, now + AGEING / 2);
        line.join("high", Priority::HIGH, now + AGEING);
        line.join("too late to overtake", Priority::HIGH, now + 2 * AGEING + Duration::from_micros(1));
        assert_eq!(order(line), ["high", "normal", "low", "too late to overtake"]);
    }

    #[test]
    fn who_has_left_is_not_counted() {
        let now = Instant::now();
        let mut line = Line::new(AGEING, now);
        line.join("a", Priority::LOW, now);
        line.join("b", Priority::HIGH, now);
        line.retain(|name| *name != "b");
        assert_eq!((line.len(), line.iter().copied().collect::<Vec<_>>()), (1, vec!["a"]));
    }
}
