//! Folders from before the control set: what their registry has recorded becomes the first control state.

use mainstay_cluster::control::record::ServiceKind;
use mainstay_cluster::message::ServiceRegistration;
use mainstay_core::Result;
use mainstay_replica::NodeReplicas;

use crate::builder::primary;
use crate::registry::{REGISTRY_PARTITION, REGISTRY_SET, Registry};

/// The services that a folder from before the control set has, with the partitions that it has given them. What the program knows of
/// them is taken from `types`.
pub(crate) async fn services(
    replicas: &NodeReplicas,
    types: &[ServiceRegistration],
) -> Result<Vec<ServiceRegistration>> {
    let partition = replicas.partition(REGISTRY_SET, REGISTRY_PARTITION)?;
    primary(&partition).await?;
    let recorded = Registry::new(partition).services()?;
    let services = recorded.into_iter().map(|(service, partitions)| {
        let known = types.iter().find(|known| known.name == service.name);
        ServiceRegistration {
            kind: known.map_or(ServiceKind::Unknown, |known| known.kind),
            interfaces: known.map(|known| known.interfaces.clone()).unwrap_or_default(),
            call_timeout_ms: known.and_then(|known| known.call_timeout_ms),
            name: service.name,
            level: service.level,
            partitioning: service.partitioning,
            partitions: Some(partitions),
        }
    });
    Ok(services.collect())
}
