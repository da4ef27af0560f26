//! What an actor keeps.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::{Deserialize, Serialize};

#[interface]
trait Account {
    async fn balance(&self) -> Result<i64>;
    async fn visits(&self) -> Result<u32>;
    async fn pay(&mut self, amount: i64) -> Result<i64>;
    async fn pay_and_fail(&mut self, amount: i64) -> Result<i64>;
    async fn pay_and_panic(&mut self, amount: i64) -> Result<i64>;
    async fn pay_save_and_fail(&mut self, first: i64, second: i64) -> Result<i64>;
    async fn save_that_fails(&mut self, amount: i64) -> Result<(bool, i64)>;
    async fn wait_and_save(&mut self, time: Duration, amount: i64) -> Result<(bool, i64)>;
    async fn touch(&mut self) -> Result<()>;
}

macro_rules! account {
    ($name:ident, $level:literal) => {
        #[derive(Actor)]
        #[actor(implements(Account), persistence = $level)]
        struct $name {
            balance: State<i64>,
            log: State<Vec<i64>>,
            visits: u32,
        }

        impl Account for $name {
            async fn balance(&self) -> Result<i64> {
                assert_eq!(*self.balance, self.log.iter().sum::<i64>());
                Ok(*self.balance)
            }

            async fn visits(&self) -> Result<u32> {
                Ok(self.visits)
            }

            async fn pay(&mut self, amount: i64) -> Result<i64> {
                self.visits += 1;
                *self.balance += amount;
                self.log.push(amount);
                Ok(*self.balance)
            }

            async fn pay_and_fail(&mut self, amount: i64) -> Result<i64> {
                self.pay(amount).await?;
                Err(Error::invalid("no"))
            }

            async fn pay_and_panic(&mut self, amount: i64) -> Result<i64> {
                self.pay(amount).await?;
                panic!("oh no");
            }

            async fn pay_save_and_fail(&mut self, first: i64, second: i64) -> Result<i64> {
                self.pay(first).await?;
                self.save().await?;
                self.pay_and_fail(second).await
            }

            async fn save_that_fails(&mut self, amount: i64) -> Result<(bool, i64)> {
                self.pay(amount).await?;
                let is_saved = self.save().await.is_ok();
                Ok((is_saved, *self.balance))
            }

            async fn wait_and_save(&mut self, time: Duration, amount: i64) -> Result<(bool, i64)> {
                tokio::time::sleep(time).await;
                self.save_that_fails(amount).await
            }

            async fn touch(&mut self) -> Result<()> {
                *self.balance += 0;
                Ok(())
            }
        }
    };
}

account!(Kept, "persisted");
account!(Replicated, "volatile");
account!(Fleeting, "none");

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<Kept>().actor::<Replicated>().actor::<Fleeting>()).await.unwrap()
}

fn all(node: &TestNode) -> [AccountRef; 3] {
    ["Kept", "Replicated", "Fleeting"].map(|name| node.actor_named(name, "alice").unwrap())
}

#[tokio::test]
async fn what_a_turn_changes_is_there_in_the_next() {
    let node = start().await;
    for account in all(&node) {
        assert_eq!(account.balance().await.unwrap(), 0);
        assert_eq!(account.pay(5).await.unwrap(), 5);
        assert_eq!(account.pay(-2).await.unwrap(), 3);
        assert_eq!(account.balance().await.unwrap(), 3);
    }
}

#[tokio::test]
async fn persisted_state_survives_a_stop_and_a_kill_and_the_others_do_not() {
    let mut node = start().await;
    for account in all(&node) {
        account.pay(5).await.unwrap();
    }
    node.kill().await.unwrap();
    let [kept, replicated, fleeting] = all(&node);
    assert_eq!(kept.balance().await.unwrap(), 5);
    assert_eq!(replicated.balance().await.unwrap(), 0);
    assert_eq!(fleeting.balance().await.unwrap(), 0);
    kept.pay(1).await.unwrap();
    node.restart().await.unwrap();
    assert_eq!(all(&node)[0].balance().await.unwrap(), 6);
}

#[tokio::test]
async fn an_error_drops_the_changes_and_keeps_the_rest_of_the_object() {
    let node = start().await;
    for account in all(&node) {
        account.pay(5).await.unwrap();
        assert_eq!(account.pay_and_fail(100).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(account.balance().await.unwrap(), 5);
        assert_eq!(account.visits().await.unwrap(), 2);
        assert_eq!(account.pay(1).await.unwrap(), 6);
    }
}

#[tokio::test]
async fn a_panic_fails_its_call_and_resets_the_actor() {
    let node = start().await;
    for account in all(&node) {
        account.pay(5).await.unwrap();
        let error = account.pay_and_panic(100).await.unwrap_err();
        assert!(error.to_string().contains("panicked: oh no"), "{error}");
        assert_eq!(account.balance().await.unwrap(), 5);
        assert_eq!(account.visits().await.unwrap(), 0);
        assert_eq!(account.pay(1).await.unwrap(), 6);
    }
}

#[tokio::test]
async fn a_save_in_the_middle_commits_what_is_there() {
    let mut node = start().await;
    let account = all(&node)[0].clone();
    account.pay_save_and_fail(5, 100).await.unwrap_err();
    assert_eq!(account.balance().await.unwrap(), 5);
    node.kill().await.unwrap();
    assert_eq!(all(&node)[0].balance().await.unwrap(), 5);
}

#[tokio::test]
async fn a_failed_save_leaves_memory_as_it_is_stored() {
    let mut node = start().await;
    for account in all(&node) {
        account.pay(5).await.unwrap();
        node.fail_next_commit();
        assert_eq!(account.save_that_fails(100).await.unwrap(), (false, 5));
        assert_eq!(account.balance().await.unwrap(), 5);
        assert_eq!(account.save_that_fails(1).await.unwrap(), (true, 6));
        node.fail_next_commit();
        assert_eq!(account.pay(100).await.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(account.balance().await.unwrap(), 6);
    }
    node.kill().await.unwrap();
    assert_eq!(all(&node)[0].balance().await.unwrap(), 6);
}

#[tokio::test]
async fn a_failed_save_that_has_lost_earlier_turns_as_well_fails_its_own() {
    let node = start().await;
    // The level at which a commit takes time, so that turns gather behind it.
    let account = all(&node)[0].clone();
    let mut balance = account.pay(1).await.unwrap();
    for wait in [Duration::ZERO, Duration::from_millis(100)] {
        let (stored, lost, stale) = tokio::join!(
            account.pay(5),
            async {
                node.fail_next_commit();
                account.pay(100).await
            },
            // With the turn that is lost, or when that is known.
            account.wait_and_save(wait, 1000),
        );
        balance += 5;
        assert_eq!(stored.unwrap(), balance);
        assert_eq!(lost.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(stale.unwrap_err().kind(), ErrorKind::Retry, "it has seen what never came to be: {wait:?}");
        assert_eq!(account.visits().await.unwrap(), 0, "nothing of it is left in memory either");
        assert_eq!(account.balance().await.unwrap(), balance);
    }
    assert_eq!(account.pay(1).await.unwrap(), balance + 1);
}

#[tokio::test]
async fn nothing_is_written_when_nothing_has_changed() {
    let node = start().await;
    let account = all(&node)[0].clone();
    account.pay(5).await.unwrap();
    let syncs = node.disk().syncs();
    account.balance().await.unwrap();
    account.touch().await.unwrap();
    account.pay_and_fail(100).await.unwrap_err();
    assert_eq!(node.disk().syncs(), syncs);
    account.pay(1).await.unwrap();
    assert!(node.disk().syncs() > syncs);
}

/// A value that panics when it is stored, if it says so.
#[derive(Default, Clone, Copy, Deserialize)]
struct Touchy(u32);

impl Serialize for Touchy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert_ne!(self.0, 13, "13 is not written down");
        serializer.serialize_newtype_struct("Touchy", &self.0)
    }
}

#[interface]
trait Superstition {
    async fn put(&mut self, number: u32) -> Result<u32>;
    async fn wait_and_put(&mut self, number: u32) -> Result<u32>;
}

#[derive(Actor)]
#[actor(implements(Superstition))]
struct SuperstitionActor {
    number: State<Touchy>,
}

impl Superstition for SuperstitionActor {
    async fn put(&mut self, number: u32) -> Result<u32> {
        Ok(std::mem::replace(&mut self.number.0, number))
    }

    async fn wait_and_put(&mut self, number: u32) -> Result<u32> {
        tokio::task::yield_now().await;
        self.put(number).await
    }
}

#[tokio::test]
async fn a_value_that_panics_when_it_is_stored_fails_its_call_alone() {
    let node = TestNode::start(|node| node.actor::<SuperstitionActor>()).await.unwrap();
    let actor: SuperstitionRef = node.actor(1).unwrap();
    assert_eq!(actor.put(1).await.unwrap(), 0);
    // One that runs and panics at its end, one that panics in line, and those who wait behind them.
    let calls = [(13, true), (2, false), (13, false), (3, false)].map(|(number, waits)| {
        let actor = actor.clone();
        tokio::spawn(async move { if waits { actor.wait_and_put(number).await } else { actor.put(number).await } })
    });
    let mut results = Vec::new();
    for call in calls {
        results.push(call.await.unwrap());
    }
    for failed in [&results[0], &results[2]] {
        let error = failed.as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fatal);
        assert!(error.to_string().contains("13 is not written down"), "{error}");
    }
    assert_eq!((*results[1].as_ref().unwrap(), *results[3].as_ref().unwrap()), (1, 2));
    assert_eq!(actor.put(4).await.unwrap(), 3);
}
