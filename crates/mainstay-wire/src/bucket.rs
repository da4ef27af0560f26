use std::time::Duration;

use mainstay_core::time::Instant;

/// A token bucket: lets so many bytes through in a second, and a tenth of a second's worth at once.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    bytes_per_second: u64,
    /// When the bucket is full again, if nothing more is spent. It is in the future by what was spent and not refilled.
    full_at: Option<Instant>,
}

/// How much of the rate may be used at once after a rest.
const BURST: Duration = Duration::from_millis(100);

impl TokenBucket {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), full_at: None }
    }

    pub(crate) fn set_rate(&mut self, bytes_per_second: u64) {
        self.bytes_per_second = bytes_per_second.max(1);
    }

    /// May something be sent now?
    ///
    /// # Errors
    /// Not before this moment.
    pub(crate) fn ready(&self, now: Instant) -> Result<(), Instant> {
        match self.full_at {
            Some(full_at) if full_at > now + BURST => Err(full_at - BURST),
            _ => Ok(()),
        }
    }

    /// So much is sent now.
    pub(crate) fn spend(&mut self, bytes: usize, now: Instant) {
        let nanos = u128::from(bytes as u64) * 1_000_000_000 / u128::from(self.bytes_per_second);
        // A rate of a byte a second is slow enough for anyone.
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(Duration::from_secs(1 << 24));
        self.full_at = Some(self.full_at.map_or(now, |full_at| full_at.max(now)) + takes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::time;

    #[tokio::test(start_paused = true)]
    async fn the_rate_holds_over_a_second_and_a_rest_earns_little() {
        let mut bucket = TokenBucket::new(1_000_000);
        for rest in [0, 3600] {
            time::sleep(Duration::from_secs(rest)).await;
            let begun = time::now();
            let mut sent = 0;
            while begun.elapsed() < Duration::from_secs(2) {
                match bucket.ready(time::now()) {
                    Ok(()) => {
                        bucket.spend(10_000, time::now());
                        sent += 10_000;
                    }
                    Err(until) => time::sleep_until(until).await,
                }
            }
            assert!((2_000_000..2_200_000).contains(&sent), "{sent}");
            time::sleep(Duration::from_secs(1)).await;
        }
    }
}
