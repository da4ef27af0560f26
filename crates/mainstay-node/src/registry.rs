use mainstay_core::partitioning::Partitioning;
use mainstay_core::{Error, ErrorKind, Level, PartitionId, RESTORE, Result, SetId, contract};
use mainstay_replica::Partition;
use mainstay_store::state::{KeyRange, Order};
use serde::Deserialize;

/// Where the registry is, on level persisted. No service has it.
pub(crate) const REGISTRY_PARTITION: PartitionId = PartitionId(0);

/// The set that holds it.
pub(crate) const REGISTRY_SET: SetId = SetId { level: Level::Persisted, number: 0 };

/// The version of the records; their first byte.
const VERSION: u8 = 1;

/// What the keys of services start with; the name follows.
const SERVICE_KEY: &[u8] = b"s";

/// The registry of a folder from before the control set: which partitions each service has, and how it was cut and kept when it first
/// started. It is read once, and becomes a part of the control state.
///
/// The format is in `docs/internals/partitioning.md`.
#[derive(Debug)]
pub(crate) struct Registry {
    partition: Partition,
}

/// What is recorded of a service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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
    pub(crate) fn new(partition: Partition) -> Self {
        Self { partition }
    }

    /// All services that are recorded, with their partitions, by name.
    ///
    /// # Errors
    /// `Corrupt` or `UnknownVersion` if a record cannot be read, `NotPrimary` if the partition is not primary here.
    pub(crate) fn services(&self) -> Result<Vec<(RecordedService, Vec<PartitionId>)>> {
        let state = self.partition.read()?;
        let mut services = Vec::new();
        for entry in state.scan(KeyRange::prefix(SERVICE_KEY), Order::Ascending)? {
            let (key, value) = entry?;
            let name = String::from_utf8_lossy(key.get(SERVICE_KEY.len()..).unwrap_or_default()).into_owned();
            let ServiceRecord { level, partitioning, partitions } = read(&value, &format!("service {name}"))?;
            if partitions.len() != partitioning.count() as usize {
                return Err(Error::corrupt(format!(
                    "the record of service {name} has {} partitions instead of {}: {RESTORE}",
                    partitions.len(),
                    partitioning.count()
                )));
            }
            services.push((RecordedService { name, level, partitioning }, partitions));
        }
        Ok(services)
    }
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
