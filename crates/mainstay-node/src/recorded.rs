use std::io;
use std::path::Path;
use std::sync::Arc;

use mainstay_cluster::control::{CONTROL_PARTITION, CONTROL_SET, ControlState};
use mainstay_core::{Error, Result};
use mainstay_replica::{InProcessNetwork, NodeReplicas, NodeReplicasOptions};
use mainstay_store::disk::{Disk as _, RealDisk};

use crate::builder::primary;
use crate::registry::{REGISTRY_PARTITION, REGISTRY_SET, RecordedService, Registry};

/// What a data folder has recorded of its services; `None` if there is no data yet. It is opened as a node would open it,
/// because what is recorded may still be in the log alone, and closed again. The folder of a node that is one of several has what that
/// node has heard of the cluster.
///
/// # Errors
/// `Conflict` if a node is using the folder, and whatever keeps one from starting.
pub async fn recorded_services(folder: &Path, options: &NodeReplicasOptions) -> Result<Option<Vec<RecordedService>>> {
    let disk = RealDisk;
    if let Err(error) = disk.list(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(unusable(folder, error));
    }
    let about = |error: Error| error.about(format_args!("data_dir {}", folder.display()));
    let Some(identity) = NodeReplicas::identity_of(&disk, folder).map_err(about)? else { return Ok(None) };
    let options = NodeReplicasOptions { owner: None, ..options.clone() };
    let transport = InProcessNetwork::new().endpoint(identity.node);
    let replicas = NodeReplicas::open(Arc::new(disk), folder, options, transport).await.map_err(about)?;
    let services = services(&replicas).await;
    replicas.stop().await;
    services.map(Some)
}

async fn services(replicas: &NodeReplicas) -> Result<Vec<RecordedService>> {
    let Some(control) = replicas.replica(CONTROL_SET) else {
        // From before the control set.
        let partition = replicas.partition(REGISTRY_SET, REGISTRY_PARTITION)?;
        primary(&partition).await?;
        return Ok(Registry::new(partition).services()?.into_iter().map(|(service, _)| service).collect());
    };
    let partition = replicas.partition(CONTROL_SET, CONTROL_PARTITION)?;
    let status = control.status();
    if status.voters.len() == 1 && status.voters.contains_key(&status.identity.replica) {
        primary(&partition).await?;
    }
    let state = ControlState::read(&partition.snapshot()?)?;
    let recorded = state.services.values().map(|service| RecordedService {
        name: service.name.clone(),
        level: service.level,
        partitioning: service.partitioning.clone(),
    });
    Ok(recorded.collect())
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
