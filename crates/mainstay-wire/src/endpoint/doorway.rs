use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// How many connections may be without a hello at a time.
const PENDING_MAX: usize = 256;

/// How many of them from one machine. One that says nothing keeps these busy, and no others.
const PENDING_PER_ORIGIN_MAX: usize = 32;

/// Counts connections that were accepted and have not said hello.
#[derive(Debug, Default)]
pub(super) struct Doorway {
    pending: Mutex<BTreeMap<String, usize>>,
}

/// The place of one of them.
#[derive(Debug)]
pub(super) struct Pending {
    doorway: Arc<Doorway>,
    origin: String,
}

impl Doorway {
    /// A place for a connection, unless there are too many.
    pub(super) fn enter(self: &Arc<Self>, remote: &str) -> Option<Pending> {
        let origin = origin(remote).to_owned();
        let mut pending = self.pending.lock();
        let all: usize = pending.values().sum();
        let of_origin = pending.get(&origin).copied().unwrap_or(0);
        if all >= PENDING_MAX || of_origin >= PENDING_PER_ORIGIN_MAX {
            return None;
        }
        pending.insert(origin.clone(), of_origin + 1);
        drop(pending);
        Some(Pending { doorway: self.clone(), origin })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut pending = self.doorway.pending.lock();
        match pending.get_mut(&self.origin) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(pending.remove(&self.origin)),
        }
    }
}

/// The machine of a remote address.
fn origin(remote: &str) -> &str {
    remote.rsplit_once(':').map_or(remote, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_does_not_take_all_places_and_gives_back_its_own() {
        let doorway = Arc::new(Doorway::default());
        let mut held: Vec<_> = (0..100).filter_map(|port| doorway.enter(&format!("10.0.0.1:{port}"))).collect();
        assert_eq!(held.len(), PENDING_PER_ORIGIN_MAX);
        held.extend((0..1000).filter_map(|host| doorway.enter(&format!("h{host}:1"))));
        assert_eq!(held.len(), PENDING_MAX);
        drop(held);
        assert!(doorway.pending.lock().is_empty());
        assert!(doorway.enter("10.0.0.1:1").is_some());
    }
}
