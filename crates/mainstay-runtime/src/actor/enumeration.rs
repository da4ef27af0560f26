//! The actors of a type from outside: which there are, page by page, and the removal of one.

pub(crate) mod elsewhere;
mod listing;
mod page_token;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use mainstay_core::partitioning::Share;
use mainstay_core::task::{self, Gone};
use mainstay_core::{ActorId, Error, ErrorKind, Result};
use mainstay_state::actor::Reminder;
use tokio::task::coop::consume_budget;

use crate::actor::cell::removal::Removal;
use crate::actor::{Actor, Context};
use crate::call::arrival::Deadline;
use crate::call::caller::Caller;
use crate::remote::partition_call::{self, PartitionCall};
use crate::router::{Address, Route, Router};

pub use listing::{Listed, Listing};
pub use page_token::PageToken;

/// The longest page of a listing.
pub const PAGE_MAX: usize = 10_000;

/// How long a page is that a [`Listing`] asks for.
pub const PAGE_DEFAULT: usize = 1_000;

/// An actor, as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ActorInfo {
    /// Who it is.
    pub id: ActorId,
    /// Whether it was in memory when it was looked at.
    pub is_active: bool,
}

/// A reminder, as a listing shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorReminder {
    /// Whose it is.
    pub actor: ActorId,
    /// The reminder.
    pub reminder: Reminder,
}

/// A part of a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// What it shows.
    pub items: Vec<T>,
    /// Where the next page begins; `None` if this is the last.
    pub continuation: Option<PageToken>,
}

/// All actors of a type. Cheap to clone.
///
/// An actor exists from its first activation until it is deleted, in memory or not. A listing goes through the partitions in
/// their order, and through each in the order of ids: numbers, uuids, texts. Whatever comes and goes meanwhile, an actor
/// that exists throughout is shown exactly once.
#[derive(Clone)]
pub struct Actors {
    router: Arc<dyn Router>,
    service: Arc<str>,
    partitions: Arc<[Arc<Address>]>,
}

impl fmt::Debug for Actors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Actors({} in {} partitions)", self.service, self.partitions.len())
    }
}

impl Actors {
    pub(crate) fn new(router: Arc<dyn Router>, service: Arc<str>, partitions: Vec<Arc<Address>>) -> Self {
        Self { router, service, partitions: partitions.into() }
    }

    /// The name of the type.
    pub fn service_name(&self) -> &str {
        &self.service
    }

    /// How many partitions there are; they are numbered from 0.
    pub fn partitions(&self) -> u32 {
        self.partitions.len() as u32
    }

    /// How many actors are in memory on this node.
    pub fn active(&self) -> u64 {
        let active = |address: &Arc<Address>| match self.router.route(address) {
            Ok(Route::Local(slot)) => slot.active_actors(),
            Ok(Route::Remote(_)) | Err(_) => 0,
        };
        self.partitions.iter().map(active).sum()
    }

    /// A page of the actors, or of the [reminders](ActorReminder), of all partitions: the first one, or the one after
    /// another.
    ///
    /// # Errors
    /// `Invalid` for a limit of 0 or above [`PAGE_MAX`], and for a continuation of another listing; those of a partition
    /// that cannot be read.
    pub async fn page<T: Listed>(&self, continuation: Option<&PageToken>, limit: usize) -> Result<Page<T>> {
        self.page_of(0..self.partitions.len(), continuation, limit).await
    }

    /// A [`page`](Actors::page) of one partition.
    ///
    /// # Errors
    /// As [`page`](Actors::page); `Invalid` if there is no such partition.
    pub async fn partition_page<T: Listed>(
        &self,
        partition: u32,
        continuation: Option<&PageToken>,
        limit: usize,
    ) -> Result<Page<T>> {
        self.check_partition(partition)?;
        self.page_of(partition as usize..partition as usize + 1, continuation, limit).await
    }

    /// All actors, one after another.
    pub fn all(&self) -> Listing<ActorInfo> {
        Listing::new(self.clone(), None)
    }

    /// All reminders of all actors, one after another.
    pub fn all_reminders(&self) -> Listing<ActorReminder> {
        Listing::new(self.clone(), None)
    }

    /// All actors of one partition, one after another.
    ///
    /// # Errors
    /// `Invalid` if there is no such partition.
    pub fn all_of_partition(&self, partition: u32) -> Result<Listing<ActorInfo>> {
        self.check_partition(partition)?;
        Ok(Listing::new(self.clone(), Some(partition)))
    }

    /// Takes an actor out of memory, when those who came before have had their turns. Its state stays. One that is not in
    /// memory is fine.
    ///
    /// # Errors
    /// Those of a call.
    pub async fn deactivate(&self, id: impl Into<ActorId>) -> Result<()> {
        self.caller(id.into())?.remove(Removal::Deactivate).await
    }

    /// Deletes an actor: see [`Proxy::delete_actor`](crate::Proxy::delete_actor).
    ///
    /// # Errors
    /// As [`Proxy::delete_actor`](crate::Proxy::delete_actor).
    pub async fn delete(&self, id: impl Into<ActorId>) -> Result<()> {
        self.caller(id.into())?.remove(Removal::Delete).await
    }

    fn check_partition(&self, partition: u32) -> Result<()> {
        if partition < self.partitions() {
            return Ok(());
        }
        let (service, count) = (&self.service, self.partitions());
        Err(Error::invalid(format!("{service} has no partition {partition}: it has {count}, from 0")))
    }

    fn caller(&self, id: ActorId) -> Result<Caller> {
        id.check()?;
        let key = id.place();
        let holds = |address: &&Arc<Address>| matches!(&address.share, Share::Range { low, high } if (*low..=*high).contains(&key));
        let address = self.partitions.iter().find(holds).cloned();
        let address = address.ok_or_else(|| {
            Error::fatal(format!("no partition of {} is responsible for actor {id}: this is a defect", self.service))
        })?;
        Ok(Caller::new(self.router.clone(), address, Some(id)))
    }

    async fn page_of<T: Listed>(
        &self,
        partitions: Range<usize>,
        continuation: Option<&PageToken>,
        limit: usize,
    ) -> Result<Page<T>> {
        if limit == 0 || limit > PAGE_MAX {
            return Err(Error::invalid(format!("a page of {limit}: use 1 to PAGE_MAX = {PAGE_MAX}")));
        }
        let (first, mut after) = match continuation {
            None => (partitions.start, None),
            Some(continuation) => {
                let (partition, mark) = continuation.read(T::LISTING, &self.service)?;
                if !partitions.contains(&partition) {
                    return Err(Error::invalid(format!(
                        "this continuation is of partition {partition} of {}: continue the listing that it is of",
                        self.service
                    )));
                }
                (partition, Some(mark))
            }
        };
        let mut items = Vec::new();
        // What is in memory is read without waiting, and others of the runtime must have a chance all the same.
        consume_budget().await;
        for partition in first..partitions.end {
            let left = limit - items.len();
            let (found, is_last) = self.read::<T>(&self.partitions[partition], after.take(), left).await?;
            items.extend(found);
            if !is_last && let Some(last) = items.last() {
                let continuation = PageToken::new(T::LISTING, &self.service, partition, last.mark())?;
                return Ok(Page { items, continuation: Some(continuation) });
            }
        }
        Ok(Page { items, continuation: None })
    }

    /// A page of one partition, wherever that is, and whether it is the last of the partition.
    async fn read<T: Listed>(
        &self,
        address: &Arc<Address>,
        after: Option<T::Mark>,
        limit: usize,
    ) -> Result<(Vec<T>, bool)> {
        let (router, address) = (self.router.clone(), address.clone());
        let reading = async move {
            loop {
                if partition_call::elsewhere(&*router, &address)?.is_some() {
                    let call = PartitionCall {
                        router: &router,
                        address: &address,
                        actor: None,
                        method: &elsewhere::LIST,
                        arguments: elsewhere::request::<T>(after.as_ref(), limit)?,
                        time_limit: address.call_timeout,
                    };
                    match call.run().await? {
                        Some(reply) => return elsewhere::read(&reply),
                        None => continue,
                    }
                }
                let Route::Local(slot) = router.route(&address)? else { continue };
                let admitted = match slot.admit("list", &mut Deadline::new(address.call_timeout, None)).await {
                    Ok(admitted) => admitted,
                    Err(error) => match error.kind() {
                        ErrorKind::NotPrimary { hint: Some(_) } if router.remote().is_some() => continue,
                        _ if slot.is_detached() && router.remote().is_some() => continue,
                        _ => return Err(error),
                    },
                };
                let actors = admitted.actors()?;
                // It may be from disk, and much.
                let found = task::blocking(move || T::list(&*actors, after.as_ref(), limit)).await?;
                let is_last = found.len() < limit;
                return Ok((found, is_last));
            }
        };
        self.router.home().run(reading).await.unwrap_or_else(|Gone| {
            let service = &self.service;
            Err(Error::fatal(format!("{service} cannot be listed, because the runtime of its node has ended")))
        })
    }
}

impl Context {
    /// All actors of a type: to list them, or to remove one.
    ///
    /// # Errors
    /// As [`Services::actors`](crate::Services::actors).
    pub fn actors<A: Actor>(&self) -> Result<Actors> {
        self.actor_shared().partition.services.actors::<A>()
    }
}
