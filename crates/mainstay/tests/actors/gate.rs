//! Nothing leaves an actor before it is durable.

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Ledger {
    async fn read(&self) -> Result<u64>;
    async fn add(&mut self, n: u64) -> Result<u64>;
    async fn report_to(&mut self, witness: String) -> Result<u64>;
    /// Adds one, tells another actor of it, and fails. What is added is saved before if that is asked for.
    async fn add_tell_and_fail(&mut self, witness: String, is_saved: bool) -> Result<u64>;
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

    async fn add_tell_and_fail(&mut self, witness: String, is_saved: bool) -> Result<u64> {
        self.add(1).await?;
        if is_saved {
            self.save().await?;
        }
        self.report_to(witness).await?;
        Err(Error::invalid("on second thoughts"))
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
async fn a_call_tells_of_what_its_turn_has_not_saved_and_of_nothing_else_if_it_saves_before() {
    let mut node = start().await;
    let ledger: LedgerRef = node.actor("a").unwrap();
    let saw = async |node: &TestNode, id: &str| node.actor::<WitnessRef>(id).unwrap().most().await.unwrap();
    ledger.add_tell_and_fail("early".into(), false).await.unwrap_err();
    assert_eq!((saw(&node, "early").await, ledger.read().await.unwrap()), (1, 0), "what never came to be");

    ledger.add_tell_and_fail("late".into(), true).await.unwrap_err();
    assert_eq!((saw(&node, "late").await, ledger.read().await.unwrap()), (1, 1));
    node.kill().await.unwrap();
    assert_eq!(node.actor::<LedgerRef>("a").unwrap().read().await.unwrap(), 1);

    // A save that fails keeps the call from being made.
    node.fail_next_commit();
    let ledger: LedgerRef = node.actor("a").unwrap();
    assert_eq!(ledger.add_tell_and_fail("never".into(), true).await.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!((saw(&node, "never").await, ledger.read().await.unwrap()), (0, 1));
}
