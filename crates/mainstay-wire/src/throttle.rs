use std::collections::BTreeMap;
use std::time::Duration;

use mainstay_core::time::{self, Instant};
use parking_lot::Mutex;

/// How often there is a line about one origin.
const INTERVAL: Duration = Duration::from_secs(10);

/// How many origins are told apart. With more, those that were quiet longest are forgotten, and all others share a line.
const ORIGINS_MAX: usize = 256;

/// What the shared line is about.
const OTHERS: &str = "others";

/// Lets one line out of many into the log: the first about each origin, and then one in ten seconds, with the number of those left out.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    seen: Mutex<BTreeMap<String, Seen>>,
}

#[derive(Debug)]
struct Seen {
    told: Instant,
    left_out: u64,
}

impl Throttle {
    /// Logs what is wrong with a peer, if there is to be a line about where it is.
    pub(crate) fn complain(&self, remote: &str, what: &str) {
        self.complain_about(remote.rsplit_once(':').map_or(remote, |(host, _)| host), remote, what);
    }

    /// The same, of a matter that has lines of its own.
    pub(crate) fn complain_about(&self, matter: &str, remote: &str, what: &str) {
        if let Some(left_out) = self.admit(matter) {
            tracing::warn!(remote, left_out, "{what}");
        }
    }

    /// Is there to be a line about this origin? If so, how many were left out since the last.
    fn admit(&self, origin: &str) -> Option<u64> {
        let now = time::now();
        let mut seen = self.seen.lock();
        let origin = if seen.contains_key(origin) || seen.len() < ORIGINS_MAX {
            origin
        } else {
            seen.retain(|_, seen| now.saturating_duration_since(seen.told) < INTERVAL);
            if seen.len() < ORIGINS_MAX { origin } else { OTHERS }
        };
        match seen.get_mut(origin) {
            Some(seen) if now.saturating_duration_since(seen.told) < INTERVAL => {
                seen.left_out += 1;
                None
            }
            Some(seen) => {
                seen.told = now;
                Some(std::mem::take(&mut seen.left_out))
            }
            None => {
                seen.insert(origin.to_owned(), Seen { told: now, left_out: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_in_ten_seconds_about_each_origin() {
        let throttle = Throttle::default();
        assert_eq!((throttle.admit("a"), throttle.admit("b")), (Some(0), Some(0)));
        for _ in 0..5 {
            assert_eq!(throttle.admit("a"), None);
        }
        time::sleep(INTERVAL).await;
        assert_eq!((throttle.admit("a"), throttle.admit("b")), (Some(5), Some(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn many_origins_share_a_line_and_are_forgotten() {
        let throttle = Throttle::default();
        let lines = (0..10_000).filter(|origin| throttle.admit(&origin.to_string()).is_some()).count();
        assert_eq!(lines, ORIGINS_MAX + 1);
        assert!(throttle.seen.lock().len() <= ORIGINS_MAX + 1);
        time::sleep(INTERVAL).await;
        assert_eq!(throttle.admit("new"), Some(0));
        assert_eq!(throttle.seen.lock().len(), 1);
    }
}
