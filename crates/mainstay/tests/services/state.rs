//! How the collections of a service are kept, as its settings say.

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay_core::time::{self, Duration};

use crate::harness::on;

#[interface]
trait Clash {
    /// Waits for a key that somebody else has locked, by itself and in `transact`; returns for how many milliseconds, and how
    /// often it was tried.
    async fn clash(&self) -> Result<(u64, u32)>;
}

#[derive(Service)]
#[service(implements(Clash), partitions = "uniform(1)", persistence = "volatile")]
struct ClashService {
    numbers: Dictionary<u64, u64>,
    state: StateManager,
}

impl Clash for ClashService {
    async fn clash(&self) -> Result<(u64, u32)> {
        let mut holder = self.state.begin();
        self.numbers.set(&mut holder, 1, 1).await?;
        let before = time::now();
        let refused = self.numbers.get(&mut self.state.begin(), &1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Timeout);
        let waited = before.elapsed().as_millis() as u64;
        let tries = std::sync::atomic::AtomicU32::new(0);
        let tried = self.state.transact(async |mut tx| {
            tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.numbers.get(tx.within(Duration::ZERO), &1).await
        });
        assert_eq!(tried.await.unwrap_err().kind(), ErrorKind::Timeout);
        Ok((waited, tries.into_inner()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_waits_and_tries_again_as_its_settings_say() {
    for (lock_timeout, tries_max, expected) in [("1500ms", "3", (1500, 3)), ("250ms", "1", (250, 1))] {
        let node = on(&SimDisk::new(1)).service::<ClashService>();
        let node = node.set("services.ClashService.state.lock_timeout", lock_timeout);
        let node = node.set("defaults.state.retry.tries_max", tries_max).start().await.unwrap();
        let clash: ClashRef = node.service("anybody").unwrap();
        assert_eq!(clash.clash().await.unwrap(), expected);
        node.stop().await;
    }
}
