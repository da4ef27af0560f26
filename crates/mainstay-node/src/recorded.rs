use std::io;
use std::path::Path;
use std::sync::Arc;

use mainstay_core::{Error, Level, Result};
use mainstay_replica::UniformSetsOptions;
use mainstay_store::disk::{Disk as _, RealDisk};

use crate::builder::{open_host, primary};
use crate::registry::{REGISTRY_PARTITION, RecordedService, Registry};

/// The file without which a folder holds no data of ours.
const IDENTITY_FILE: &str = "identity";

/// What a data folder has recorded of its services; `None` if there is no data yet. It is opened as a node would open it,
/// because what is recorded may still be in the log alone, and closed again.
///
/// # Errors
/// `Conflict` if a node is using the folder, and whatever keeps one from starting.
pub async fn recorded_services(folder: &Path, options: &UniformSetsOptions) -> Result<Option<Vec<RecordedService>>> {
    let disk = RealDisk;
    let names = match disk.list(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(unusable(folder, error)),
    };
    if !names.iter().any(|name| name == IDENTITY_FILE) {
        return Ok(None);
    }
    let replicas = open_host(Arc::new(disk), folder, options.clone()).await?;
    let partition = replicas.partition(Level::Persisted, REGISTRY_PARTITION);
    let services = match primary(&partition).await {
        Ok(()) => Registry::new(partition).services(),
        Err(error) => Err(error),
    };
    replicas.stop().await;
    services.map(Some)
}

/// What is told of a data folder that cannot even be listed, by the name of the setting.
fn unusable(folder: &Path, error: io::Error) -> Error {
    let folder = folder.display();
    let text = match error.kind() {
        io::ErrorKind::NotADirectory => {
            format!(
                "data_dir {folder} is a file, or below one, and a node needs a folder: set data_dir to another path"
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("data_dir {folder} may not be read by this user: allow it, or set data_dir to another path")
        }
        _ => format!("data_dir {folder} cannot be read: check the disk, or set data_dir to another path"),
    };
    Error::invalid(text).with_source(error)
}
