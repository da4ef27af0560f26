use mainstay_core::partitioning::Partitioning;
use mainstay_core::{Error, ErrorKind, Level, PartitionId, Result, contract};
use mainstay_replica::{Partition, Snapshot};
use mainstay_runtime::ServiceType;
use serde::{Deserialize, Serialize};

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
    pub async fn enroll(&self, services: &[ServiceType]) -> Result<Vec<Vec<PartitionId>>> {
        let state = self.partition.read()?;
        let mut batch = self.partition.batch();
        batch.in_epoch(state.epoch());
        let first = next(&state)?;
        let mut next = first;
        let mut enrolled = Vec::new();
        for service in services {
            let key = [SERVICE_KEY, service.name().as_bytes()].concat();
            let record = match state.get(&key)? {
                Some(bytes) => {
                    let record: ServiceRecord = read(&bytes, &format!("service {}", service.name()))?;
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

impl ServiceRecord {
    /// Gives partitions to a service that is new.
    fn new(service: &ServiceType, next: &mut PartitionId) -> Result<Self> {
        let end = next.0.checked_add(u64::from(service.partitioning().count()));
        let end = end.ok_or_else(|| Error::fatal("there is no number left for a new partition"))?;
        let partitions = (next.0..end).map(PartitionId).collect();
        *next = PartitionId(end);
        Ok(Self { level: service.level(), partitioning: service.partitioning().clone(), partitions })
    }

    /// Refuses a service whose code does not fit its data.
    fn check(&self, service: &ServiceType) -> Result<()> {
        let name = service.name();
        if self.partitioning != *service.partitioning() {
            return Err(Error::invalid(format!(
                "service {name} has data in partitions {} and its code says {}, by which that data would not be found: set \
                 `partitions = {}` again, or give it another `name` to start without the data",
                self.partitioning,
                service.partitioning(),
                self.partitioning,
            )));
        }
        if self.level != service.level() {
            return Err(Error::invalid(format!(
                "service {name} is recorded with persistence \"{}\" and its code says \"{}\", where its state is not: set \
                 `persistence = \"{}\"` again, or give it another `name` to start without the state",
                self.level,
                service.level(),
                self.level,
            )));
        }
        if self.partitions.len() != self.partitioning.count() as usize {
            return Err(Error::corrupt(format!(
                "the record of service {name} has {} partitions instead of {}: restore the data folder from a backup",
                self.partitions.len(),
                self.partitioning.count()
            )));
        }
        Ok(())
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
        Some((&VERSION, record)) => contract::decode(record)
            .map_err(|error| Error::corrupt(format!("the registry's record of {what} is damaged")).with_source(error)),
        Some((version, _)) => Err(Error::new(
            ErrorKind::UnknownVersion,
            format!(
                "the registry's record of {what} has version {version}, and this build reads {VERSION}: use a newer one"
            ),
        )),
        None => Err(Error::corrupt(format!("the registry's record of {what} is empty"))),
    }
}

#[cfg(test)]
mod tests;
