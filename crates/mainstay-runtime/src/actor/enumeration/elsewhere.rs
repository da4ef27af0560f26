//! Listings of partitions on other nodes.

use bytes::Bytes;
use mainstay_core::time::{Duration, WallTime};
use mainstay_core::{ActorId, Error, ErrorKind, Result, contract};
use mainstay_state::actor::{CatchUp, CronSchedule, Reminder, Schedule};
use serde::{Deserialize, Serialize};

use crate::actor::actor_table::AnyActorTable;
use crate::actor::enumeration::listing::Sealed;
use crate::actor::enumeration::{ActorInfo, ActorReminder, PAGE_MAX};
use crate::call::arrival::Method;

/// The interface of what partitions of actors do for other nodes.
pub(crate) const PARTITION_INTERFACE: &str = "mainstay/Actors";

/// Reads a page of a listing.
pub(crate) static LIST: Method = Method::new(PARTITION_INTERFACE, "list").repeatable();

/// A page that is asked for.
#[derive(Debug, Serialize, Deserialize)]
struct ListRequest {
    listing: u8,
    /// The encoded mark that the page before has ended with.
    after: Option<Vec<u8>>,
    limit: u32,
}

/// A page of one partition.
#[derive(Debug, Serialize, Deserialize)]
struct ListReply<T> {
    items: Vec<T>,
    is_last: bool,
}

/// The arguments of [`LIST`].
pub(super) fn request<T: Sealed>(after: Option<&T::Mark>, limit: usize) -> Result<Bytes> {
    let after = after.map(contract::encode).transpose()?;
    let limit = u32::try_from(limit.min(PAGE_MAX)).unwrap_or(u32::MAX);
    contract::encode(&ListRequest { listing: T::LISTING, after, limit }).map(Bytes::from)
}

/// The page that another node has sent, and whether it is the last of the partition.
pub(super) fn read<T: Sealed>(reply: &[u8]) -> Result<(Vec<T>, bool)> {
    let ListReply { items, is_last } = contract::decode::<ListReply<T::Travelling>>(reply)?;
    let items: Result<Vec<T>> = items.into_iter().map(T::arrive).collect();
    Ok((items?, is_last))
}

/// A page for another node. One that is too large to be sent is cut in half until it is not.
pub(crate) fn list(actors: &dyn AnyActorTable, arguments: &[u8]) -> Result<Bytes> {
    let request: ListRequest = contract::decode(arguments)?;
    match request.listing {
        ActorInfo::LISTING => list_of::<ActorInfo>(actors, &request),
        ActorReminder::LISTING => list_of::<ActorReminder>(actors, &request),
        other => {
            let text =
                format!("there is no listing {other} on this node: the caller runs another version of the program");
            Err(Error::new(ErrorKind::Unsupported, text))
        }
    }
}

fn list_of<T: Sealed>(actors: &dyn AnyActorTable, request: &ListRequest) -> Result<Bytes> {
    let after: Option<T::Mark> = request.after.as_deref().map(contract::decode).transpose()?;
    let mut limit = (request.limit as usize).clamp(1, PAGE_MAX);
    loop {
        let items = T::list(actors, after.as_ref(), limit)?;
        let reply = ListReply { is_last: items.len() < limit, items: items.into_iter().map(T::travel).collect() };
        match contract::encode(&reply) {
            Err(error) if error.kind() == ErrorKind::TooLarge && limit > 1 => limit /= 2,
            encoded => return encoded.map(Bytes::from),
        }
    }
}

/// A reminder on its way.
#[derive(Debug, Serialize, Deserialize)]
pub struct TravellingReminder {
    actor: ActorId,
    name: String,
    payload: Bytes,
    schedule: TravellingSchedule,
    catch_up: TravellingCatchUp,
    due: WallTime,
    planned: WallTime,
    failures: u32,
    fired: u64,
    wait: Option<Duration>,
}

#[derive(Debug, Serialize, Deserialize)]
enum TravellingSchedule {
    Once,
    Every(Duration),
    Cron(String),
}

#[derive(Debug, Serialize, Deserialize)]
enum TravellingCatchUp {
    Once,
    All,
    Skip,
}

impl TravellingReminder {
    pub(super) fn new(listed: ActorReminder) -> Self {
        let ActorReminder { actor, reminder } = listed;
        let Reminder { name, payload, schedule, catch_up, due, planned, failures, fired, wait } = reminder;
        let schedule = match schedule {
            Schedule::Once => TravellingSchedule::Once,
            Schedule::Every(period) => TravellingSchedule::Every(period),
            Schedule::Cron(cron) => TravellingSchedule::Cron(cron.as_str().to_owned()),
        };
        let catch_up = match catch_up {
            CatchUp::Once => TravellingCatchUp::Once,
            CatchUp::All => TravellingCatchUp::All,
            CatchUp::Skip => TravellingCatchUp::Skip,
        };
        Self { actor, name, payload, schedule, catch_up, due, planned, failures, fired, wait }
    }

    pub(super) fn arrive(self) -> Result<ActorReminder> {
        let Self { actor, name, payload, schedule, catch_up, due, planned, failures, fired, wait } = self;
        let schedule = match schedule {
            TravellingSchedule::Once => Schedule::Once,
            TravellingSchedule::Every(period) => Schedule::Every(period),
            TravellingSchedule::Cron(text) => Schedule::Cron(CronSchedule::parse(&text)?),
        };
        let catch_up = match catch_up {
            TravellingCatchUp::Once => CatchUp::Once,
            TravellingCatchUp::All => CatchUp::All,
            TravellingCatchUp::Skip => CatchUp::Skip,
        };
        let reminder = Reminder { name, payload, schedule, catch_up, due, planned, failures, fired, wait };
        Ok(ActorReminder { actor, reminder })
    }
}
