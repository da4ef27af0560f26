use mainstay_core::ActorId;
use mainstay_core::time::{self, Duration, Instant};
use parking_lot::Mutex;

/// How long nothing more is said of an actor after a warning.
pub(crate) const QUIET_TIME: Duration = Duration::from_secs(10);

/// How many actors may be warned about in that time. A disk that is full concerns all of them, and one warning says so.
const ACTORS_MAX: usize = 16;

/// Lets warnings of one sort through, unless there are too many.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Who was warned about, and when.
    recent: Vec<(ActorId, Instant)>,
    unsaid: u64,
}

impl Throttle {
    /// Whether there is to be a warning: with how many were left out since the last.
    pub(crate) fn admit(&self, actor: &ActorId) -> Option<u64> {
        let now = time::now();
        let mut inner = self.inner.lock();
        inner.recent.retain(|(_, said)| now.saturating_duration_since(*said) < QUIET_TIME);
        if inner.recent.len() >= ACTORS_MAX || inner.recent.iter().any(|(known, _)| known == actor) {
            inner.unsaid += 1;
            return None;
        }
        inner.recent.push((actor.clone(), now));
        Some(std::mem::take(&mut inner.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_one_warning_and_the_next_one_tells_of_the_rest() {
        let throttle = Throttle::default();
        assert_eq!(throttle.admit(&1.into()), Some(0));
        for _ in 0..1000 {
            assert_eq!(throttle.admit(&1.into()), None);
        }
        assert_eq!(throttle.admit(&2.into()), Some(1000), "another actor is another matter");
        tokio::time::advance(QUIET_TIME).await;
        assert_eq!(throttle.admit(&1.into()), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn also_a_flood_of_many_actors() {
        let throttle = Throttle::default();
        let said = (0..10_000).filter(|actor| throttle.admit(&ActorId::from(*actor)).is_some()).count();
        assert_eq!(said, ACTORS_MAX);
        tokio::time::advance(QUIET_TIME).await;
        assert_eq!(throttle.admit(&3.into()), Some(10_000 - ACTORS_MAX as u64));
    }
}
