//! Nothing leaves an actor before it is durable.

use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[interface]
trait Ledger {
    async fn read(&self) -> Result<u64>;
    async fn add(&mut self, n: u64) -> Result<u64>;
    async fn report_to(&mut self, witness: String) -> Result<u64>;
    /// Adds one, and tells another actor of it once that is saved.
    async fn add_and_report_to(&mut self, witness: String) -> Result<u64>;
    /// Adds one, and tells another actor of it after the turn.
    async fn add_and_report_later(&mut self, witness: String) -> Result<u64>;
    /// Answers with the next value that there is.
    async fn promise(&mut self) -> Result<Deferred<u64>>;
}

#[derive(Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Grew {
    value: u64,
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
    promised: Vec<Responder<u64>>,
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
        self.promised.drain(..).for_each(|promised| promised.respond(Ok(*self.value)));
        self.ctx.publish(Grew { value: *self.value })?;
        Ok(*self.value)
    }

    async fn add_and_report_to(&mut self, witness: String) -> Result<u64> {
        self.add(1).await?;
        self.save().await?;
        self.report_to(witness).await
    }

    async fn add_and_report_later(&mut self, witness: String) -> Result<u64> {
        let value = self.add(1).await?;
        let witness = self.ctx.actor::<WitnessRef>(witness)?;
        self.ctx.then(async move { witness.saw(value).await }, async |_: &mut Self, told| told)?;
        Ok(value)
    }

    async fn promise(&mut self) -> Result<Deferred<u64>> {
        let (answer, promised) = deferred();
        self.promised.push(promised);
        Ok(answer)
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

/// One of those who look at a ledger, or change it.
#[derive(Debug, Clone, Copy)]
enum Op {
    Read,
    Add,
    Report,
    SaveAndReport,
    Promise,
    ReportLater,
}

/// What happens one after another, without waiting for the last to end.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// The next commit fails, whenever that is.
    is_faulty: bool,
    op: Op,
    /// How long until the next: less or more than a commit takes.
    pause_us: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![
        2 => Just(Op::Read),
        4 => Just(Op::Add),
        2 => Just(Op::Report),
        2 => Just(Op::SaveAndReport),
        1 => Just(Op::Promise),
        2 => Just(Op::ReportLater),
    ];
    (prop::bool::weighted(0.15), op, 0..2000_u64).prop_map(|(is_faulty, op, pause_us)| Step { is_faulty, op, pause_us })
}

/// The most that was told by a call, if it has ended.
async fn told(call: &mut tokio::task::JoinHandle<Result<u64>>) -> u64 {
    match call.is_finished() {
        true => call.await.unwrap().unwrap_or_default(),
        false => 0,
    }
}

async fn check(steps: Vec<Step>, is_killed: bool) -> Result<(), TestCaseError> {
    let mut node = start().await;
    let ledger: LedgerRef = node.actor("a").unwrap();
    let witness: WitnessRef = node.actor("w").unwrap();
    let mut grown = ledger.events::<Grew>().unwrap();
    let mut calls = Vec::new();
    for Step { is_faulty, op, pause_us } in steps {
        if is_faulty {
            node.fail_next_commit();
        }
        let ledger = ledger.clone();
        calls.push(tokio::spawn(async move {
            match op {
                Op::Read => ledger.read().await,
                Op::Add => ledger.add(1).await,
                Op::Report => ledger.report_to("w".into()).await,
                Op::SaveAndReport => ledger.add_and_report_to("w".into()).await,
                Op::Promise => ledger.promise().await,
                Op::ReportLater => ledger.add_and_report_later("w".into()).await,
            }
        }));
        tokio::time::sleep(Duration::from_micros(pause_us)).await;
    }
    let mut seen = 0;
    if !is_killed {
        // What is owed may be owed for ever, because nobody adds any more.
        node.advance(Duration::from_secs(61)).await;
    }
    seen = seen.max(witness.most().await.unwrap());
    while let Some(Ok(received)) = grown.try_next() {
        seen = seen.max(received.event.value);
    }
    for call in &mut calls {
        seen = seen.max(told(call).await);
    }
    if is_killed {
        node.kill().await.unwrap();
    }
    let stored = node.actor::<LedgerRef>("a").unwrap().read().await.unwrap();
    prop_assert!(seen <= stored, "somebody saw {seen}, and {stored} is stored");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_or_is_killed_no_observer_has_seen_more_than_is_stored(
        steps in prop::collection::vec(step(), 1..40),
        is_killed in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(steps, is_killed))?;
    }
}
