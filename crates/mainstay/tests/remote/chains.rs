//! Call chains over nodes: cycles are refused by ids.

use mainstay::prelude::*;
use mainstay_core::time::{self, Duration};
use mainstay_runtime::ServiceType;

use crate::harness::{FIRST, SECOND, TwoNodes};

#[interface]
trait Near {
    /// Calls the far actor of its name, which calls back.
    async fn around(&mut self, depth: u64) -> Result<String>;
    async fn look_around(&self) -> Result<String>;
    async fn hello(&mut self) -> Result<String>;
    async fn look(&self) -> Result<String>;
}

#[interface]
trait Far {
    async fn back(&mut self, near: String, depth: u64) -> Result<String>;
    async fn look_back(&self, near: String) -> Result<String>;
}

#[derive(Actor)]
#[actor(implements(Near), partitions = 1)]
struct NearActor {
    ctx: Context,
}

#[derive(Actor)]
#[actor(implements(Far), partitions = 1)]
struct FarActor {
    ctx: Context,
}

impl Near for NearActor {
    async fn around(&mut self, depth: u64) -> Result<String> {
        let id = self.ctx.id().as_text().unwrap_or_default().to_owned();
        let far: FarRef = self.ctx.actor(format!("far of {id}"))?;
        far.back(id, depth).await
    }

    async fn look_around(&self) -> Result<String> {
        let far: FarRef = self.ctx.actor("far")?;
        far.look_back(self.ctx.id().as_text().unwrap_or_default().to_owned()).await
    }

    async fn hello(&mut self) -> Result<String> {
        Ok("hello".to_owned())
    }

    async fn look(&self) -> Result<String> {
        Ok("looked".to_owned())
    }
}

impl Far for FarActor {
    async fn back(&mut self, near: String, depth: u64) -> Result<String> {
        if depth == 0 {
            return self.ctx.actor::<NearRef>(near)?.hello().await;
        }
        // By way of another near actor, whose far one calls back in the end.
        self.ctx.actor::<NearRef>(format!("{near}+"))?.around(depth - 1).await
    }

    async fn look_back(&self, near: String) -> Result<String> {
        self.ctx.actor::<NearRef>(near)?.look().await
    }
}

async fn cluster() -> TwoNodes {
    let near = ServiceType::of_actor::<NearActor>().unwrap();
    let far = ServiceType::of_actor::<FarActor>().unwrap();
    TwoNodes::start(vec![(near, FIRST), (far, SECOND)]).await
}

#[tokio::test(start_paused = true)]
async fn a_cycle_over_two_nodes_is_refused_at_once_with_its_chain() {
    let cluster = cluster().await;
    let alice: NearRef = cluster.first().services.actor("alice").unwrap();
    let begun = time::now();
    let error = alice.around(0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let chain = r#"NearActor("alice").around → FarActor("far of alice").back → NearActor("alice").hello"#;
    assert!(error.to_string().contains(chain), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(1));
    // The actors are free again.
    assert_eq!(alice.hello().await.unwrap(), "hello");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_longer_way_around_is_seen_too() {
    let cluster = cluster().await;
    // From elsewhere: the whole chain is on the wire. The last far actor calls back the near one that called it.
    let alice: NearRef = cluster.second().services.actor("alice").unwrap();
    let error = alice.around(3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains(r#"NearActor("alice").around → FarActor("far of alice").back → "#), "{error}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reads_may_come_back_to_where_they_began() {
    let cluster = cluster().await;
    let alice: NearRef = cluster.first().services.actor("alice").unwrap();
    assert_eq!(alice.look_around().await.unwrap(), "looked");
    cluster.stop().await;
}
