use std::path::Path;
use std::sync::Arc;

use mainstay_core::{Level, Result};
use mainstay_replica::{Host, HostOptions, InProcessNetwork};
use mainstay_store::disk::{Disk as _, RealDisk};

use crate::builder::primary;
use crate::registry::{REGISTRY_PARTITION, RecordedService, Registry};

/// The file without which a folder holds no data of ours.
const IDENTITY_FILE: &str = "identity";

/// What a data folder has recorded of its services; `None` if there is no data yet. It is opened as a node would open it,
/// because what is recorded may still be in the log alone, and closed again.
///
/// # Errors
/// `Conflict` if a node is using the folder, and whatever keeps one from starting.
pub async fn recorded_services(folder: &Path, options: &HostOptions) -> Result<Option<Vec<RecordedService>>> {
    let disk = RealDisk;
    let is_data = disk.list(folder).is_ok_and(|names| names.iter().any(|name| name == IDENTITY_FILE));
    if !is_data {
        return Ok(None);
    }
    let transport = InProcessNetwork::new().endpoint(options.node);
    let host = Host::open(Arc::new(disk), folder, options.clone(), transport).await?;
    let partition = host.partition(Level::Persisted, REGISTRY_PARTITION);
    let services = match primary(&partition).await {
        Ok(()) => Registry::new(partition).services(),
        Err(error) => Err(error),
    };
    host.stop().await;
    services.map(Some)
}
