//! Whatever fails or is killed, what somebody outside has seen of an actor is stored.
//!
//! Each change adds a token that is like no other, so that none can stand in for one that was lost.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

type Tokens = BTreeSet<u64>;

/// Every method answers with all tokens that there are.
#[interface]
trait Ledger {
    async fn read(&self) -> Result<Tokens>;
    async fn add(&mut self, token: u64) -> Result<Tokens>;
    async fn report_to(&mut self, witness: String) -> Result<Tokens>;
    /// Adds, and tells another actor of it once that is saved.
    async fn add_and_report(&mut self, token: u64, witness: String) -> Result<Tokens>;
    /// Adds, and tells another actor of it after the turn.
    async fn add_and_report_later(&mut self, token: u64, witness: String) -> Result<Tokens>;
    /// Answers when the next is added.
    async fn promise(&mut self) -> Result<Deferred<Tokens>>;
    /// Adds by a timer.
    async fn add_by_timer(&mut self, token: u64) -> Result<Tokens>;
    /// Adds by a reminder.
    async fn add_by_reminder(&mut self, token: u64) -> Result<Tokens>;
}

#[derive(Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Grew {
    tokens: Tokens,
}

#[interface]
trait Witness {
    async fn saw(&mut self, tokens: Tokens) -> Result<()>;
    async fn seen(&self) -> Result<Tokens>;
}

#[derive(Actor)]
#[actor(implements(Ledger))]
struct LedgerActor {
    tokens: State<Tokens>,
    promised: Vec<Responder<Tokens>>,
    ctx: Context,
}

/// Keeps what it saw whatever becomes of its commits.
#[derive(Actor)]
#[actor(implements(Witness), persistence = "none")]
struct WitnessActor {
    ctx: Context,
}

#[derive(Default)]
struct Seen(Mutex<Tokens>);

impl Ledger for LedgerActor {
    async fn read(&self) -> Result<Tokens> {
        Ok(self.tokens.clone())
    }

    async fn add(&mut self, token: u64) -> Result<Tokens> {
        self.tokens.insert(token);
        self.promised.drain(..).for_each(|promised| promised.respond(Ok(self.tokens.clone())));
        self.ctx.publish(Grew { tokens: self.tokens.clone() })?;
        Ok(self.tokens.clone())
    }

    async fn report_to(&mut self, witness: String) -> Result<Tokens> {
        self.ctx.actor::<WitnessRef>(witness)?.saw(self.tokens.clone()).await?;
        Ok(self.tokens.clone())
    }

    async fn add_and_report(&mut self, token: u64, witness: String) -> Result<Tokens> {
        self.add(token).await?;
        self.save().await?;
        self.report_to(witness).await
    }

    async fn add_and_report_later(&mut self, token: u64, witness: String) -> Result<Tokens> {
        let tokens = self.add(token).await?;
        let (witness, told) = (self.ctx.actor::<WitnessRef>(witness)?, tokens.clone());
        self.ctx.then(async move { witness.saw(told).await }, async |_: &mut Self, told| told)?;
        Ok(tokens)
    }

    async fn promise(&mut self) -> Result<Deferred<Tokens>> {
        let (answer, promised) = deferred();
        self.promised.push(promised);
        Ok(answer)
    }

    async fn add_by_timer(&mut self, token: u64) -> Result<Tokens> {
        let add = async move |ledger: &mut Self| ledger.add(token).await.map(drop);
        self.ctx.set_timer(&token.to_string(), Duration::from_micros(500), None, add)?;
        self.read().await
    }

    async fn add_by_reminder(&mut self, token: u64) -> Result<Tokens> {
        self.ctx.remind(&token.to_string()).after(Duration::from_millis(1)).value(&token).set()?;
        self.read().await
    }
}

impl Remindable for LedgerActor {
    async fn remind(&mut self, reminder: Reminder) -> Result<()> {
        self.add(reminder.decode()?).await.map(drop)
    }
}

impl Witness for WitnessActor {
    async fn saw(&mut self, tokens: Tokens) -> Result<()> {
        self.ctx.provided::<Seen>()?.0.lock().unwrap().extend(tokens);
        Ok(())
    }

    async fn seen(&self) -> Result<Tokens> {
        Ok(self.ctx.provided::<Seen>()?.0.lock().unwrap().clone())
    }
}

/// What observers can say of a run.
#[derive(Debug, Default)]
struct Observed {
    /// What was seen, wherever that was.
    tokens: Tokens,
    /// When a deletion was asked for, and when that had ended, if it had: the numbers of steps.
    deletions: Vec<(u64, Option<u64>)>,
    /// What was added and told of before a deletion was asked for that succeeded.
    deleted: Tokens,
}

impl Observed {
    /// What was seen and is not stored, and what was deleted and is. The token of a step has its number.
    fn violations(&self, stored: &Tokens) -> Vec<String> {
        // A deletion that may have come after it is a good reason for a token to be gone.
        let is_excused = |token: &u64| self.deletions.iter().any(|(_, ended)| ended.is_none_or(|ended| ended > *token));
        let lost = self.tokens.difference(stored).filter(|token| !is_excused(token));
        let back = self.deleted.intersection(stored);
        lost.map(|token| format!("{token} was seen and is not stored"))
            .chain(back.map(|token| format!("{token} was deleted and is stored")))
            .collect()
    }
}

/// One of those who look at a ledger, or change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Read,
    Add,
    /// The same call twice.
    AddOnce,
    Report,
    SaveAndReport,
    Promise,
    ReportLater,
    Timer,
    Reminder,
    Delete,
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
        3 => Just(Op::AddOnce),
        2 => Just(Op::Report),
        2 => Just(Op::SaveAndReport),
        1 => Just(Op::Promise),
        2 => Just(Op::ReportLater),
        1 => Just(Op::Timer),
        1 => Just(Op::Reminder),
        1 => Just(Op::Delete),
    ];
    (prop::bool::weighted(0.15), op, 0..2000_u64).prop_map(|(is_faulty, op, pause_us)| Step { is_faulty, op, pause_us })
}

/// A call that was made, in a step.
struct Made {
    step: u64,
    op: Op,
    call: JoinHandle<Result<Tokens>>,
    /// What it was answered, and in which step that was found.
    answer: Option<(u64, Result<Tokens>)>,
}

impl Made {
    async fn look(&mut self, step: u64) {
        if self.answer.is_none() && self.call.is_finished() {
            self.answer = Some((step, (&mut self.call).await.unwrap()));
        }
    }

    fn told(&self) -> Option<&Tokens> {
        self.answer.as_ref()?.1.as_ref().ok()
    }
}

fn make(ledger: &LedgerRef, step: u64, op: Op) -> Made {
    let ledger = ledger.clone();
    let call = tokio::spawn(async move {
        match op {
            Op::Read => ledger.read().await,
            Op::Add => ledger.add(step).await,
            Op::AddOnce => ledger.idempotent(format!("key {step}")).add(step).await,
            Op::Report => ledger.report_to("w".into()).await,
            Op::SaveAndReport => ledger.add_and_report(step, "w".into()).await,
            Op::Promise => ledger.promise().await,
            Op::ReportLater => ledger.add_and_report_later(step, "w".into()).await,
            Op::Timer => ledger.add_by_timer(step).await,
            Op::Reminder => ledger.add_by_reminder(step).await,
            Op::Delete => ledger.delete_actor().await.map(|()| Tokens::new()),
        }
    });
    Made { step, op, call, answer: None }
}

async fn check(steps: Vec<Step>, is_killed: bool) -> Result<(), TestCaseError> {
    let mut node = TestNode::start(|node| node.provide(Seen::default()).actor::<LedgerActor>().actor::<WitnessActor>())
        .await
        .unwrap();
    let ledger: LedgerRef = node.actor("a").unwrap();
    let mut grown = ledger.events::<Grew>().unwrap();
    let (mut calls, mut observed) = (Vec::<Made>::new(), Observed::default());
    let steps: Vec<_> = (0..).zip(steps).collect();
    for (number, Step { is_faulty, op, pause_us }) in &steps {
        if *is_faulty {
            node.fail_next_commit();
        }
        for call in &mut calls {
            call.look(*number).await;
        }
        calls.push(make(&ledger, *number, *op));
        if *op == Op::AddOnce {
            calls.push(make(&ledger, *number, *op));
        }
        tokio::time::sleep(Duration::from_micros(*pause_us)).await;
    }
    if !is_killed {
        // What is owed may be owed for ever, because nobody adds any more.
        node.advance(Duration::from_secs(61)).await;
    }
    observed.tokens.extend(node.actor::<WitnessRef>("w").unwrap().seen().await.unwrap_or_default());
    // An error tells that the actor was deleted.
    while let Some(received) = grown.try_next() {
        observed.tokens.extend(received.map(|grew| grew.event.tokens).unwrap_or_default());
    }
    let end = steps.len() as u64;
    for call in &mut calls {
        call.look(end).await;
        observed.tokens.extend(call.told().into_iter().flatten());
    }
    for call in calls.iter().filter(|call| call.op == Op::Delete) {
        observed.deletions.push((call.step, call.answer.as_ref().map(|(ended, _)| *ended)));
        if call.told().is_some() {
            let before = calls.iter().filter(|other| {
                let is_told = other.answer.as_ref().is_some_and(|(ended, told)| *ended <= call.step && told.is_ok());
                is_told && matches!(other.op, Op::Add | Op::SaveAndReport)
            });
            observed.deleted.extend(before.map(|other| other.step));
        }
    }
    match is_killed {
        true => node.kill().await.unwrap(),
        false => node.restart().await.unwrap(),
    }
    node.fail_next_commits(0);
    let ledger: LedgerRef = node.actor("a").unwrap();
    let stored = ledger.read().await.unwrap();
    let violations = observed.violations(&stored);
    prop_assert!(violations.is_empty(), "{violations:?}: {stored:?} is stored, {observed:?}");
    if observed.deletions.is_empty() {
        for call in calls.iter().filter(|call| call.op == Op::AddOnce) {
            let Some(told) = call.told() else { continue };
            let again = ledger.idempotent(format!("key {}", call.step)).add(call.step).await.unwrap();
            prop_assert_eq!(told, &again, "the answer of step {} is what it was", call.step);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_or_is_killed_what_an_observer_has_seen_is_stored(
        steps in prop::collection::vec(step(), 1..40),
        is_killed in any::<bool>(),
        deletes in prop::bool::weighted(0.3),
    ) {
        let steps = steps.into_iter().filter(|step| deletes || step.op != Op::Delete).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(steps, is_killed))?;
    }
}

#[test]
fn the_check_finds_what_was_lost_however_much_was_added_since() {
    let observed = |deletions, deleted: &[u64]| Observed {
        tokens: Tokens::from([1, 7]),
        deletions,
        deleted: deleted.iter().copied().collect(),
    };
    // To count them would not tell: there are more of them than anybody has seen.
    let stored = Tokens::from([1, 8, 9]);
    assert_eq!(observed(vec![], &[]).violations(&stored), ["7 was seen and is not stored"]);
    assert_eq!(observed(vec![], &[]).violations(&Tokens::from([1, 7, 8])), [""; 0]);
    // Only a deletion that may have come after it is a reason.
    assert_eq!(observed(vec![(2, Some(7))], &[]).violations(&stored).len(), 1);
    for ended in [None, Some(8)] {
        assert_eq!(observed(vec![(2, ended)], &[]).violations(&stored), [""; 0]);
    }
    assert_eq!(observed(vec![(2, None)], &[1]).violations(&stored), ["1 was deleted and is stored"]);
}
