//! Accounts in a dictionary, and the transfers that were made: both change in one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay::prelude::*;

/// How many banks there are: one for each partition.
pub const BANKS: u32 = 4;

/// How many accounts a bank has.
pub const ACCOUNTS: u32 = 5;

/// What each account holds in the beginning. Money is neither made nor lost.
pub const INITIAL: u64 = 100;

/// One bank.
#[interface]
pub trait Bank {
    /// Moves money from one account to another; false if there is not enough. Asked again by the same id, it is done once.
    async fn transfer(&self, id: u64, from: u32, to: u32, amount: u64) -> Result<bool>;

    /// What each account holds.
    async fn balances(&self) -> Result<Vec<u64>>;

    /// What each account holds, and the ids of all transfers that were made, at one moment.
    async fn statement(&self) -> Result<(Vec<u64>, Vec<u64>)>;
}

/// The service: the key of a caller is the number of the bank.
#[derive(Service)]
#[service(implements(Bank), partitions = "uniform(4, 0..=3)", persistence = "persisted")]
pub struct BankService {
    accounts: Dictionary<u32, u64>,
    transfers: Dictionary<u64, u64>,
    state: StateManager,
}

impl BankService {
    async fn read(&self, tx: &mut Transaction) -> Result<Vec<u64>> {
        let held: BTreeMap<u32, Arc<u64>> = self.accounts.all().entries(tx).await?.collect().await?;
        Ok((0..ACCOUNTS).map(|account| held.get(&account).map_or(INITIAL, |amount| **amount)).collect())
    }
}

impl Bank for BankService {
    async fn transfer(&self, id: u64, from: u32, to: u32, amount: u64) -> Result<bool> {
        if from == to || from >= ACCOUNTS || to >= ACCOUNTS {
            return Err(Error::invalid(format!("a transfer from account {from} to {to}: use two of {ACCOUNTS}")));
        }
        self.state
            .transact(async |mut tx| {
                if self.transfers.contains(&mut tx, &id).await? {
                    return Ok(true);
                }
                let left = self.accounts.get_for_update(&mut tx, &from).await?.map_or(INITIAL, |held| *held);
                let Some(left) = left.checked_sub(amount) else { return Ok(false) };
                let more = self.accounts.get_for_update(&mut tx, &to).await?.map_or(INITIAL, |held| *held) + amount;
                self.accounts.set(&mut tx, from, left).await?;
                self.accounts.set(&mut tx, to, more).await?;
                self.transfers.set(&mut tx, id, amount).await?;
                Ok(true)
            })
            .await
    }

    async fn balances(&self) -> Result<Vec<u64>> {
        self.state.transact(async |mut tx| self.read(&mut tx).await).await
    }

    async fn statement(&self) -> Result<(Vec<u64>, Vec<u64>)> {
        self.state
            .transact(async |mut tx| {
                let balances = self.read(&mut tx).await?;
                let transfers: Vec<u64> = self.transfers.all().keys(&mut tx).await?.collect().await?;
                Ok((balances, transfers))
            })
            .await
    }
}
