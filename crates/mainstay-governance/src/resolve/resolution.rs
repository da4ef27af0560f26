use serde::{Deserialize, Serialize};

use super::entity::Entity;
use super::physical_resource::PhysicalResource;

/// Where an entity lives, as of a version. It can be kept, and sent along with a job: whoever carries out the job
/// [checks](super::Guard) that it still holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The entity.
    pub entity: Entity,
    /// The logical partition that the entity is on.
    pub partition: u32,
    /// The resource that the partition is on.
    pub resource: PhysicalResource,
    /// The version of the resolver's map as of which this is so.
    pub version: u64,
}

impl Resolution {
    /// What the side of the resource has to know to check it: the resolution without the address.
    pub fn ticket(&self) -> Ticket {
        Ticket {
            entity: self.entity.clone(),
            partition: self.partition,
            resource: self.resource.name.clone(),
            version: self.version,
        }
    }
}

/// What a job carries to say where its sender believes the entity to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The entity.
    pub entity: Entity,
    /// The logical partition that the entity was on.
    pub partition: u32,
    /// The name of the resource that the partition was on.
    pub resource: String,
    /// The version of the resolver's map as of which that was so.
    pub version: u64,
}
