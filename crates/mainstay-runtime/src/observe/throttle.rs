use mainstay_core::ActorId;
use mainstay_core::time::{self, Duration, Instant};
use parking_lot::Mutex;

/// The time for which further warnings about an actor are suppressed.
pub(crate) const QUIET_TIME: Duration = Duration::from_secs(10);

/// The bound on actors that are warned about in that time: a full disk concerns all actors, and a few warnings say so.
const ACTORS_MAX: usize = 16;

/// The rate limit of one kind of warning.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    state: Mutex<ThrottleState>,
}

#[derive(Debug, Default)]
struct ThrottleState {
    /// The actors that were warned about, and when.
    recent: Vec<(ActorId, Instant)>,
    suppressed: u64,
}

impl Throttle {
    /// Admits a warning, with the number of warnings that were suppressed since the last one; `None` to suppress it.
    pub(crate) fn admit(&self, actor: &ActorId) -> Option<u64> {
        let now = time::now();
        let mut state = self.state.lock();
        state.recent.retain(|(_, said)| now.saturating_duration_since(*said) < QUIET_TIME);
        if state.recent.len() >= ACTORS_MAX || state.recent.iter().any(|(known, _)| known == actor) {
            state.suppressed += 1;
            return None;
        }
        state.recent.push((actor.clone(), now));
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn repeated_warnings_about_an_actor_are_suppressed_and_counted() {
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
    async fn warnings_about_many_actors_are_suppressed_and_counted() {
        let throttle = Throttle::default();
        let said = (0..10_000).filter(|actor| throttle.admit(&ActorId::from(*actor)).is_some()).count();
        assert_eq!(said, ACTORS_MAX);
        tokio::time::advance(QUIET_TIME).await;
        assert_eq!(throttle.admit(&3.into()), Some(10_000 - ACTORS_MAX as u64));
    }
}
