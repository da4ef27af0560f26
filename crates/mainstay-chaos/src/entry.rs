//! Where calls come in: whatever hands out proxies. A node does, and so does a client of a cluster.

use std::future::Future;
use std::time::Duration;

use mainstay::ActorId;
use mainstay::prelude::*;
use serde::{Deserialize, Serialize};

use crate::action::{Action, Answer};
use crate::workload::bank::BankRef;
use crate::workload::counter::CounterRef;
use crate::workload::journal::{self, JournalRef};
use crate::workload::register::RegisterRef;
use crate::workload::ticker::TickerRef;

/// Hands out proxies.
pub trait EntryPoint: Send + Sync {
    /// The proxy of an actor.
    ///
    /// # Errors
    /// As [`Node::actor`].
    fn actor<P: Proxy>(&self, id: ActorId) -> Result<P>;

    /// The proxy of a bank.
    ///
    /// # Errors
    /// As [`Node::service`].
    fn bank(&self, number: i64) -> Result<BankRef>;
}

impl EntryPoint for Node {
    fn actor<P: Proxy>(&self, id: ActorId) -> Result<P> {
        Node::actor(self, id)
    }

    fn bank(&self, number: i64) -> Result<BankRef> {
        self.service(number)
    }
}

/// A call with its conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What is asked for.
    pub action: Action,
    /// By this key it happens once, however often it is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How long it may take, in milliseconds.
    pub time_limit_ms: u64,
}

impl Request {
    /// How long it may take.
    pub fn time_limit(&self) -> Duration {
        Duration::from_millis(self.time_limit_ms)
    }
}

/// A way to the objects, for one caller that calls one after the other. A clone is a way of its own.
pub trait Target: Clone + Send + 'static {
    /// Makes a call.
    ///
    /// To be correct: an error says whether something may have happened, by its kind. [`ErrorKind::OutcomeUnknown`] and
    /// [`ErrorKind::Fatal`] leave it open, all others say that nothing has.
    fn call(&mut self, request: &Request) -> impl Future<Output = Result<Answer>> + Send;
}

/// The way through an entry in this process.
#[derive(Debug, Clone)]
pub struct Direct<E>(pub E);

impl<E: EntryPoint + Clone + 'static> Target for Direct<E> {
    async fn call(&mut self, request: &Request) -> Result<Answer> {
        perform(&self.0, request).await
    }
}

/// Makes a call through an entry.
///
/// # Errors
/// Those of the call.
pub async fn perform(entry: &impl EntryPoint, request: &Request) -> Result<Answer> {
    match request.action {
        Action::Read { register } => register_of(entry, register, request)?.read().await.map(Answer::Value),
        Action::Write { register, value } => {
            register_of(entry, register, request)?.write(value).await.map(|()| Answer::Done)
        }
        Action::Swap { register, expected, value } => {
            register_of(entry, register, request)?.swap(expected, value).await.map(Answer::Value)
        }
        Action::Add { counter } => counter_of(entry, counter, request)?.add().await.map(Answer::Total),
        Action::Total { counter } => counter_of(entry, counter, request)?.total().await.map(Answer::Total),
        Action::Append { journal, line } => {
            let owner: JournalRef = entry.actor(journal::name(journal).into())?;
            owner.with_timeout(request.time_limit()).run(line).await.map(Answer::Fence)
        }
        Action::Ticks { ticker } => {
            let ticker: TickerRef = entry.actor(ticker.into())?;
            ticker.with_timeout(request.time_limit()).ticks().await.map(Answer::Ticks)
        }
        Action::Transfer { bank, id, from, to, amount } => {
            bank_of(entry, bank, request)?.transfer(id, from, to, amount).await.map(Answer::Transferred)
        }
        Action::Balances { bank } => bank_of(entry, bank, request)?.balances().await.map(Answer::Balances),
        Action::Statement { bank } => {
            let (balances, transfers) = bank_of(entry, bank, request)?.statement().await?;
            Ok(Answer::Statement { balances, transfers })
        }
    }
}

fn register_of(entry: &impl EntryPoint, number: u32, request: &Request) -> Result<RegisterRef> {
    entry.actor(number.into()).map(|register| with_conditions(register, request))
}

fn counter_of(entry: &impl EntryPoint, number: u32, request: &Request) -> Result<CounterRef> {
    entry.actor(number.into()).map(|counter| with_conditions(counter, request))
}

fn bank_of(entry: &impl EntryPoint, number: u32, request: &Request) -> Result<BankRef> {
    Ok(entry.bank(number.into())?.with_timeout(request.time_limit()))
}

fn with_conditions<P: Proxy>(proxy: P, request: &Request) -> P {
    let proxy = proxy.with_timeout(request.time_limit());
    match &request.key {
        Some(key) => proxy.idempotent(key),
        None => proxy,
    }
}
