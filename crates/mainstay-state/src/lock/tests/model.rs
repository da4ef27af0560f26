//! A lock manager as simple as it can be: lists, and a search over all edges. What it says is what must happen.

use crate::lock::LockMode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Granted,
    Waits,
    Deadlock,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    who: usize,
    mode: LockMode,
    converts: bool,
}

#[derive(Debug, Default)]
struct Key {
    holders: Vec<(usize, LockMode)>,
    queue: Vec<Request>,
}

#[derive(Debug)]
pub(super) struct Model {
    keys: Vec<Key>,
}

/// The table, a second time.
fn compatible(wanted: LockMode, granted: LockMode) -> bool {
    wanted != LockMode::Exclusive && granted == LockMode::Shared
}

impl Key {
    fn excludes(&self, request: Request) -> bool {
        self.holders.iter().any(|(who, mode)| *who != request.who && !compatible(request.mode, *mode))
    }

    fn settle(&mut self) {
        while let Some(first) = self.queue.first().copied()
            && !self.excludes(first)
        {
            self.queue.remove(0);
            self.holders.retain(|(who, _)| *who != first.who);
            self.holders.push((first.who, first.mode));
        }
    }
}

impl Model {
    pub(super) fn new(keys: usize) -> Self {
        Self { keys: (0..keys).map(|_| Key::default()).collect() }
    }

    pub(super) fn held(&self, who: usize, key: usize) -> Option<LockMode> {
        self.keys[key].holders.iter().find(|(holder, _)| *holder == who).map(|(_, mode)| *mode)
    }

    pub(super) fn is_waiting(&self, who: usize) -> bool {
        self.keys.iter().any(|key| key.queue.iter().any(|request| request.who == who))
    }

    pub(super) fn keys_in_use(&self) -> usize {
        self.keys.iter().filter(|key| !key.holders.is_empty()).count()
    }

    pub(super) fn acquire(&mut self, who: usize, key: usize, mode: LockMode) -> Outcome {
        let held = self.held(who, key);
        if held.is_some_and(|held| held >= mode) {
            return Outcome::Granted;
        }
        let request = Request { who, mode, converts: held.is_some() };
        let queue = &mut self.keys[key].queue;
        let place = if request.converts {
            queue.iter().position(|other| !other.converts).unwrap_or(queue.len())
        } else {
            queue.len()
        };
        queue.insert(place, request);
        self.keys[key].settle();
        if !self.is_waiting(who) {
            return Outcome::Granted;
        }
        if self.is_in_a_circle(who) {
            self.cancel(who);
            return Outcome::Deadlock;
        }
        Outcome::Waits
    }

    /// Takes back a request that waits.
    pub(super) fn cancel(&mut self, who: usize) {
        for key in &mut self.keys {
            key.queue.retain(|request| request.who != who);
            key.settle();
        }
    }

    /// Gives back a mode that was granted, for the one that was held before.
    pub(super) fn fall_back(&mut self, who: usize, key: usize, former: Option<LockMode>) {
        let key = &mut self.keys[key];
        key.holders.retain(|(holder, _)| *holder != who);
        key.holders.extend(former.map(|mode| (who, mode)));
        key.settle();
    }

    pub(super) fn release(&mut self, who: usize) {
        self.cancel(who);
        for key in &mut self.keys {
            key.holders.retain(|(holder, _)| *holder != who);
            key.settle();
        }
    }

    /// All for whom someone waits.
    fn edges(&self, who: usize) -> Vec<usize> {
        let mut edges = Vec::new();
        for key in &self.keys {
            let Some(place) = key.queue.iter().position(|request| request.who == who) else { continue };
            let mode = key.queue[place].mode;
            edges.extend(key.queue[..place].iter().map(|ahead| ahead.who));
            edges.extend(key.holders.iter().filter(|(_, granted)| !compatible(mode, *granted)).map(|(who, _)| *who));
        }
        edges.retain(|to| *to != who);
        edges
    }

    pub(super) fn is_in_a_circle(&self, who: usize) -> bool {
        let (mut seen, mut next) = (Vec::new(), self.edges(who));
        while let Some(to) = next.pop() {
            if to == who {
                return true;
            }
            if !seen.contains(&to) {
                seen.push(to);
                next.extend(self.edges(to));
            }
        }
        false
    }

    /// What must hold whatever the rules say.
    pub(super) fn check(&self, transactions: usize) {
        for key in &self.keys {
            for (n, (one, mode)) in key.holders.iter().enumerate() {
                for (other, before) in &key.holders[..n] {
                    assert_ne!(one, other, "one entry for each holder");
                    assert!(compatible(*mode, *before) || compatible(*before, *mode), "{mode} with {before}");
                }
            }
            assert!(key.queue.first().is_none_or(|first| key.excludes(*first)), "nobody waits for nothing");
        }
        assert!((0..transactions).any(|who| !self.is_waiting(who)), "all wait, and nobody was refused");
    }
}
