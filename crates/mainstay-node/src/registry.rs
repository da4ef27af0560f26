use mainstay_core::partitioning::Partitioning;
use mainstay_core::{Error, ErrorKind, Level, PartitionId, RESTORE, Result, contract};
use mainstay_replica::{Partition, Snapshot};
use mainstay_store::state::{KeyRange, Order};
use serde::{Deserialize, Serialize};

use crate::settings::{Origin, ServiceSettings};

/// Where the registry is, on level persisted. No service has it.
pub const REGISTRY_PARTITION: PartitionId = PartitionId(0);

/// The first partition of a service. Those before it are kept for the system's own.
pub const FIRST_PARTITION: PartitionId = PartitionId(16);

/// The version of the records; their first byte.
const VERSION: u8 = 1;

/// The key of the record that says which partition is given out next.
const NEXT_KEY: &[u8] = b"n";

/// What the keys of services start with; the name follows.
const SERVICE_KEY: &[u8] = b"s";

/// Which partitions each service has, and how it was cut and kept when it first started: what finds its data again.
///
/// The format is in `docs/internals/partitioning.md`.
#[derive(Debug)]
pub struct Registry {
    partition: Partition,
}

/// What is recorded of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ServiceRecord {
    level: Level,
    partitioning: Partitioning,
    /// In the order of the partitioning.
    partitions: Vec<PartitionId>,
}

/// A service that a data folder has, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedService {
    /// Its name.
    pub name: String,
    /// How its state is kept.
    pub level: Level,
    /// How it is cut.
    pub partitioning: Partitioning,
}

impl Registry {
    /// The registry in a partition that is primary here.
    pub fn new(partition: Partition) -> Self {
        Self { partition }
    }

    /// Looks up the partitions of services, and gives new ones to those that have none; all of it in one commit.
    ///
    /// # Errors
    /// `Invalid` if a service is recorded with another partitioning or level, `Corrupt` or `UnknownVersion` if a record
    /// cannot be read, and whatever keeps the partition from committing.
    pub async fn enroll(&self, services: &[&ServiceSettings]) -> Result<Vec<Vec<PartitionId>>> {
        let state = self.partition.read()?;
        let mut batch = self.partition.batch();
        batch.in_epoch(state.epoch());
        let first = next(&state)?;
        let mut next = first;
        let mut enrolled = Vec::new();
        for service in services {
            let key = [SERVICE_KEY, service.name.as_bytes()].concat();
            let record = match state.get(&key)? {
                Some(bytes) => {
                    let record: ServiceRecord = read(&bytes, &format!("service {}", service.name))?;
                    record.check(service)?;
                    record
                }
                None => {
                    let record = ServiceRecord::new(service, &mut next)?;
                    batch.put(&key, &versioned(&record)?);
                    record
                }
            };
            enrolled.push(record.partitions);
        }
        if next != first {
            batch.put(NEXT_KEY, &versioned(&next)?);
            self.partition.commit(batch).await?;
        }
        Ok(enrolled)
    }
}

impl Registry {
    /// All services that are recorded, by name.
    ///
    /// # Errors
    /// `Corrupt` or `UnknownVersion` if a record cannot be read, `NotPrimary` if the partition is not primary here.
    pub fn services(&self) -> Result<Vec<RecordedService>> {
        let state = self.partition.read()?;
        let mut services = Vec::new();
        for entry in state.scan(KeyRange::prefix(SERVICE_KEY), Order::Ascending)? {
            let (key, value) = entry?;
            let name = String::from_utf8_lossy(key.get(SERVICE_KEY.len()..).unwrap_or_default()).into_owned();
            let ServiceRecord { level, partitioning, .. } = read(&value, &format!("service {name}"))?;
            services.push(RecordedService { name, level, partitioning });
        }
        Ok(services)
    }
}

impl ServiceRecord {
    /// Gives partitions to a service that is new.
    fn new(service: &ServiceSettings, next: &mut PartitionId) -> Result<Self> {
        let partitioning = service.partitioning.value.clone();
        let end = next.0.checked_add(u64::from(partitioning.count()));
        let end = end.ok_or_else(|| Error::fatal("there is no number left for a new partition"))?;
        let partitions = (next.0..end).map(PartitionId).collect();
        *next = PartitionId(end);
        Ok(Self { level: service.level.value, partitioning, partitions })
    }

    /// Refuses a service that is set otherwise than its data is.
    fn check(&self, service: &ServiceSettings) -> Result<()> {
        let name = &service.name;
        let ServiceSettings { partitioning, level, .. } = service;
        if self.partitioning != partitioning.value {
            let (recorded, origin) = (&self.partitioning, &partitioning.origin);
            let said = said_by(origin);
            let again = match (is_code(origin), recorded) {
                (true, _) => format!("set `partitions = {recorded}` in its attribute again"),
                // The file takes a number where the code cuts into ranges, and only there.
                (false, Partitioning::Uniform { count, .. }) => {
                    format!("set `partitions = {count}` {} again", there(origin))
                }
                (false, _) => format!("remove `partitions` {} again", there(origin)),
            };
            return Err(Error::invalid(format!(
                "service {name} has data in partitions {recorded} and {said} {}, by which that data would not be found: \
                 {again}, or give it another `name` in its attribute to start without the data",
                partitioning.value,
            )));
        }
        if self.level != level.value {
            return Err(Error::invalid(format!(
                "service {name} is recorded with persistence \"{}\" and {} \"{}\", where its state is not: set `persistence \
                 = \"{}\"` {} again, or give it another `name` in its attribute to start without the state",
                self.level,
                said_by(&level.origin),
                level.value,
                self.level,
                there(&level.origin),
            )));
        }
        if self.partitions.len() != self.partitioning.count() as usize {
            return Err(Error::corrupt(format!(
                "the record of service {name} has {} partitions instead of {}: {RESTORE}",
                self.partitions.len(),
                self.partitioning.count()
            )));
        }
        Ok(())
    }
}

/// Whether it is the code of a type that says so, by its attribute or by having none.
fn is_code(origin: &Origin) -> bool {
    matches!(origin, Origin::Attribute | Origin::Default)
}

fn said_by(origin: &Origin) -> String {
    match origin {
        origin if is_code(origin) => "its code says".to_owned(),
        Origin::Builder => "the program says by its `NodeBuilder`".to_owned(),
        origin => format!("{origin} says"),
    }
}

fn there(origin: &Origin) -> String {
    match origin {
        origin if is_code(origin) => "in its attribute".to_owned(),
        Origin::Builder => "at the `NodeBuilder`".to_owned(),
        Origin::File { path, .. } => format!("in {}", path.display()),
        origin => format!("in {origin}"),
    }
}

fn next(state: &Snapshot) -> Result<PartitionId> {
    match state.get(NEXT_KEY)? {
        None => Ok(FIRST_PARTITION),
        Some(bytes) => read(&bytes, "the next partition"),
    }
}

fn versioned(record: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = vec![VERSION];
    contract::encode_into(&mut bytes, record)?;
    Ok(bytes)
}

fn read<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    match bytes.split_first() {
        Some((&VERSION, record)) => contract::decode(record).map_err(|error| {
            Error::corrupt(format!("the registry's record of {what} is damaged: {RESTORE}")).with_source(error)
        }),
        Some((version, _)) => Err(Error::new(
            ErrorKind::UnknownVersion,
            format!(
                "the registry's record of {what} has version {version}, and this build reads {VERSION}: use a newer one"
            ),
        )),
        None => Err(Error::corrupt(format!("the registry's record of {what} is empty: {RESTORE}"))),
    }
}

#[cfg(test)]
mod tests;
