//! A key stands for one call: this method of this interface with these arguments.

use std::collections::{HashMap, HashSet};

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Credit {
    async fn book(&mut self, cents: i64) -> Result<i64>;
    async fn book_all(&mut self, of: HashMap<String, i64>, tags: HashSet<String>) -> Result<i64>;
    async fn book_list(&mut self, list: Vec<i64>) -> Result<i64>;
    async fn balance(&self) -> Result<i64>;
}

#[interface]
trait Debit {
    async fn book(&mut self, cents: i64) -> Result<i64>;
}

#[derive(Actor)]
#[actor(implements(Credit, Debit))]
struct AccountActor {
    balance: State<i64>,
}

impl Credit for AccountActor {
    async fn book(&mut self, cents: i64) -> Result<i64> {
        *self.balance += cents;
        Ok(*self.balance)
    }

    async fn book_all(&mut self, of: HashMap<String, i64>, _: HashSet<String>) -> Result<i64> {
        *self.balance += of.values().sum::<i64>();
        Ok(*self.balance)
    }

    async fn book_list(&mut self, list: Vec<i64>) -> Result<i64> {
        *self.balance += list.iter().sum::<i64>();
        Ok(*self.balance)
    }

    async fn balance(&self) -> Result<i64> {
        Ok(*self.balance)
    }
}

impl Debit for AccountActor {
    async fn book(&mut self, cents: i64) -> Result<i64> {
        *self.balance -= cents;
        Ok(*self.balance)
    }
}

fn conflict(result: Result<i64>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_key_is_not_answered_for_a_method_of_another_interface_or_for_other_arguments() {
    let mut node = TestNode::start(|node| node.actor::<AccountActor>()).await.unwrap();
    for is_restarted in [false, true] {
        let (credit, debit): (CreditRef, DebitRef) = (node.actor("a").unwrap(), node.actor("a").unwrap());
        let (credit, debit) = (credit.idempotent("order 1"), debit.idempotent("order 1"));
        assert_eq!(debit.book(5).await.unwrap(), -5);
        let text = conflict(credit.book(5).await);
        assert!(text.contains("\"order 1\" of AccountActor(\"a\")"), "{text}");
        assert!(text.contains("`Debit::book` before, and now for `Credit::book`"), "{text}");
        let text = conflict(debit.book(6).await);
        assert!(text.contains("`Debit::book` with other arguments before"), "{text}");
        assert_eq!(debit.book(5).await.unwrap(), -5, "the same call is answered as before");
        assert_eq!(credit.balance().await.unwrap(), -5, "and nothing has happened twice");
        if !is_restarted {
            node.kill().await.unwrap();
        }
    }
}

#[tokio::test]
async fn arguments_are_compared_by_what_they_mean() {
    let node = TestNode::start(|node| node.actor::<AccountActor>()).await.unwrap();
    let credit: CreditRef = node.actor("a").unwrap();
    let of = || (0..50).map(|number| (format!("of {number}"), 1)).collect::<HashMap<_, _>>();
    let tags = || (0..50).map(|number| format!("tag {number}")).collect::<HashSet<_>>();
    let once = credit.idempotent("map");
    for _ in 0..5 {
        assert_eq!(once.book_all(of(), tags()).await.unwrap(), 50, "each map and set has an order of its own");
    }
    let mut other = of();
    other.insert("of 0".into(), 2);
    conflict(once.book_all(other, tags()).await);
    conflict(once.book_all(of(), tags().into_iter().skip(1).collect()).await);
    let once = credit.idempotent("list");
    assert_eq!(once.book_list(vec![1, 2]).await.unwrap(), 53);
    conflict(once.book_list(vec![2, 1]).await);
    assert_eq!(credit.balance().await.unwrap(), 53);
}
