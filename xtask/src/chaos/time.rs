//! Real time, in which processes run.
#![allow(clippy::disallowed_methods, reason = "a chore runs in real time, never in simulation")]

use std::time::{Duration, Instant};

use crate::command::Outcome;

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn now() -> Instant {
    Instant::now()
}

pub(super) fn rest(time: Duration) {
    std::thread::sleep(time);
}

/// Looks again and again until there is something to see, or the time is up: then `overdue` says what was missed.
pub(super) fn wait_for<T>(
    limit: Duration,
    mut look: impl FnMut() -> Outcome<Option<T>>,
    overdue: impl FnOnce() -> String,
) -> Outcome<T> {
    let begun = now();
    loop {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        if begun.elapsed() >= limit {
            return Err(format!("{} after {} s", overdue(), limit.as_secs()));
        }
        rest(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_in_time_is_named() {
        let mut looks = 0;
        let look = || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        };
        assert_eq!(wait_for(Duration::from_secs(60), look, || "nothing".to_owned()), Ok(3));
        let never = wait_for::<()>(Duration::ZERO, || Ok(None), || "it has not come".to_owned());
        assert_eq!(never, Err("it has not come after 0 s".to_owned()));
    }
}
