//! Sessions that are on their way out.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Counts the sessions that nobody uses any more and that the server may still have, by the key of who had them. Whoever
/// comes next by a key waits for them, so that the server never has more of it than there are owners.
#[derive(Debug, Default)]
pub(super) struct Door {
    leaving: Mutex<BTreeMap<String, usize>>,
    left: Notify,
}

/// A session that is on its way out, until this is dropped.
#[derive(Debug)]
pub(super) struct Leaving {
    door: Arc<Door>,
    key: String,
}

impl Door {
    /// Somebody is on the way out.
    pub(super) fn leave(self: &Arc<Self>, key: &str) -> Leaving {
        *self.leaving.lock().entry(key.to_owned()).or_default() += 1;
        Leaving { door: self.clone(), key: key.to_owned() }
    }

    /// Returns when nobody is on the way out who had this key.
    pub(super) async fn clear(&self, key: &str) {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if !self.leaving.lock().contains_key(key) {
                return;
            }
            left.await;
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut leaving = self.door.leaving.lock();
        if let Some(count) = leaving.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                leaving.remove(&self.key);
            }
        }
        drop(leaving);
        self.door.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn who_comes_by_a_key_waits_for_all_who_leave_by_it_and_for_nobody_else() {
        let door = Arc::new(Door::default());
        let leaving = [door.leave("a"), door.leave("a"), door.leave("b")];
        let mut clear = pin!(door.clear("a"));
        assert_eq!(clear.as_mut().now_or_never(), None);
        let [first, second, _other] = leaving;
        drop(first);
        assert_eq!(clear.as_mut().now_or_never(), None);
        drop(second);
        assert_eq!(clear.now_or_never(), Some(()));
        assert_eq!(door.clear("never there").now_or_never(), Some(()));
    }
}
