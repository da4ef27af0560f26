//! Nothing leaves an actor before it is durable.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Ledger {
    async fn read(&self) -> Result<u64>;
    async fn add(&mut self, n: u64) -> Result<u64>;
    async fn report_to(&mut self, witness: String) -> Result<u64>;
}

#[interface]
trait Witness {
    async fn saw(&mut self, value: u64) -> Result<()>;
    async fn most(&self) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Ledger))]
struct LedgerActor {
    value: State<u64>,
    ctx: Context,
}

#[derive(Actor)]
#[actor(implements(Witness), persistence = "none")]
struct WitnessActor {
    most: State<u64>,
}

impl Ledger for LedgerActor {
    async fn read(&self) -> Result<u64> {
        Ok(*self.value)
    }

    async fn add(&mut self, n: u64) -> Result<u64> {
        *self.value += n;
        Ok(*self.value)
    }

    async fn report_to(&mut self, witness: String) -> Result<u64> {
        self.ctx.actor::<WitnessRef>(witness)?.saw(*self.value).await?;
        Ok(*self.value)
    }
}

impl Witness for WitnessActor {
    async fn saw(&mut self, value: u64) -> Result<()> {
        *self.most = value.max(*self.most);
        Ok(())
    }

    async fn most(&self) -> Result<u64> {
        Ok(*self.most)
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<LedgerActor>().actor::<WitnessActor>()).await.unwrap()
}

#[tokio::test]
async fn turns_overlap_with_commits_and_answers_wait_for_them() {
    let node = start().await;
    let ledger: LedgerRef = node.actor("a").unwrap();
    ledger.add(1).await.unwrap();
    let syncs = node.disk().syncs();
    let calls: Vec<_> = (0..100)
        .map(|_| {
            tokio::spawn({
                let ledger = ledger.clone();
                async move { ledger.add(1).await }
            })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap().unwrap());
    }
    assert_eq!(answers, (2..=101).collect::<Vec<_>>());
    // All that ran while the first was being committed were committed together.
    assert!(node.disk().syncs() - syncs < 10, "{} syncs", node.disk().syncs() - syncs);
}

#[tokio::test]
async fn what_was_read_of_a_turn_that_fails_is_not_told() {
    let node = start().await;
    let ledger: LedgerRef = node.actor("a").unwrap();
    let witness: WitnessRef = node.actor("w").unwrap();
    ledger.add(1).await.unwrap();
    node.fail_next_commit();
    let (failed, read, reported, added) =
        tokio::join!(ledger.add(100), ledger.read(), ledger.report_to("w".into()), ledger.add(10));
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
    // Whoever came after it either failed with it or has not seen it.
    for seen in [read, reported, added].into_iter().flatten() {
        assert!(seen < 100, "{seen}");
    }
    assert!(witness.most().await.unwrap() < 100);
    assert!(ledger.read().await.unwrap() < 100);
}

#[tokio::test]
async fn whatever_fails_or_is_killed_no_observer_has_seen_more_than_is_stored() {
    for round in 0..40_u64 {
        let mut node = start().await;
        let ledger: LedgerRef = node.actor("a").unwrap();
        let witness: WitnessRef = node.actor("w").unwrap();
        let mut calls = Vec::new();
        for number in 0..30_u64 {
            let ledger = ledger.clone();
            calls.push(tokio::spawn(async move {
                match (number + round) % 3 {
                    0 => ledger.read().await,
                    1 => ledger.report_to("w".into()).await,
                    _ => ledger.add(1).await,
                }
            }));
            if (number * 7 + round) % 11 == 0 {
                node.fail_next_commit();
            }
            tokio::time::sleep(Duration::from_micros(round * 13 % 400)).await;
        }
        let is_killed = round % 2 == 0;
        let mut seen = 0;
        if is_killed {
            seen = seen.max(witness.most().await.unwrap());
            for call in calls.iter_mut() {
                if call.is_finished()
                    && let Ok(Ok(value)) = call.await
                {
                    seen = seen.max(value);
                }
            }
            node.kill().await.unwrap();
        } else {
            for call in calls {
                if let Ok(value) = call.await.unwrap() {
                    seen = seen.max(value);
                }
            }
            seen = seen.max(witness.most().await.unwrap());
        }
        let stored = node.actor::<LedgerRef>("a").unwrap().read().await.unwrap();
        assert!(seen <= stored, "round {round}: somebody saw {seen}, and {stored} is stored");
    }
}
