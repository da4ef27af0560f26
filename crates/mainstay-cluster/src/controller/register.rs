use std::collections::BTreeSet;
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, PartitionId, Result, SetId};

use crate::control::record::{PlacedPartition, ServiceKind, ServiceRecord};
use crate::control::{ControlState, NAME_BYTES_MAX};
use crate::message::ServiceRegistration;

/// The most services of a cluster. Each costs every node a record in memory.
const SERVICES_MAX: usize = 10_000;

/// Looks up services, and gives partitions to those that are new.
pub(super) fn register(
    state: &mut ControlState,
    registrations: &[ServiceRegistration],
) -> Result<Vec<Arc<ServiceRecord>>> {
    registrations.iter().map(|registration| register_one(state, registration)).collect()
}

fn register_one(state: &mut ControlState, registration: &ServiceRegistration) -> Result<Arc<ServiceRecord>> {
    let name = &registration.name;
    let record = match state.services.get(name) {
        Some(known) => {
            check(known, registration)?;
            let mut record = known.clone();
            let interfaces: BTreeSet<String> = known.interfaces.union(&registration.interfaces).cloned().collect();
            let is_same = (known.kind, known.call_timeout_ms) == (registration.kind, registration.call_timeout_ms);
            if !is_same || interfaces != known.interfaces {
                let changed = Arc::make_mut(&mut record);
                changed.kind = registration.kind;
                changed.interfaces = interfaces;
                changed.call_timeout_ms = registration.call_timeout_ms;
            }
            record
        }
        None => Arc::new(new_service(state, registration)?),
    };
    state.services.insert(name.clone(), record.clone());
    Ok(record)
}

/// Refuses a service that is set otherwise than its data is.
fn check(known: &ServiceRecord, registration: &ServiceRegistration) -> Result<()> {
    let name = &registration.name;
    if known.partitioning != registration.partitioning {
        return Err(Error::invalid(format!(
            "service {name} has data in partitions {} and is registered with {}, by which that data would not be found: set \
             `partitions = {}` again, or give it another `name` in its attribute to start without the data",
            known.partitioning, registration.partitioning, known.partitioning
        )));
    }
    if known.level != registration.level {
        return Err(Error::invalid(format!(
            "service {name} is recorded with persistence \"{}\" and registered with \"{}\": the level cannot be changed, because its \
             state is in replica sets of level \"{}\" and no other would find it; set `persistence = \"{}\"` again, or give it \
             another `name` in its attribute to start without the state",
            known.level, registration.level, known.level, known.level
        )));
    }
    if known.kind != registration.kind && known.kind != ServiceKind::Unknown {
        return Err(Error::invalid(format!(
            "service {name} is recorded as {:?} and registered as {:?}, which keep their state differently: give it another \
             `name` in its attribute",
            known.kind, registration.kind
        )));
    }
    Ok(())
}

fn new_service(state: &mut ControlState, registration: &ServiceRegistration) -> Result<ServiceRecord> {
    let ServiceRegistration { name, kind, level, partitioning, interfaces, call_timeout_ms, partitions } =
        registration.clone();
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a service has a name of {} bytes: a name has 1 to {NAME_BYTES_MAX}",
            name.len()
        )));
    }
    if state.services.len() >= SERVICES_MAX {
        let text = format!("the cluster has {SERVICES_MAX} services, and takes no more: {name} was not registered");
        return Err(Error::new(ErrorKind::TooLarge, text));
    }
    partitioning.check().map_err(|error| error.about(format!("service {name}")))?;
    let count = partitioning.count();
    let ids = match partitions {
        Some(ids) => adopt(state, &name, ids, count)?,
        None => new_partitions(state, count)?,
    };
    let sets = u64::from(state.cluster()?.sets_per_level.max(1));
    // In turn over the sets, so that the partitions of a service are on all of them. The remainder is below a `u16`.
    let placed = |id: PartitionId| PlacedPartition { id, set: SetId { level, number: (id.0 % sets) as u16 } };
    let partitions = ids.into_iter().map(placed).collect();
    Ok(ServiceRecord { name, kind, level, partitioning, partitions, interfaces, call_timeout_ms })
}

fn new_partitions(state: &mut ControlState, count: u32) -> Result<Vec<PartitionId>> {
    let next = &mut state.cluster_mut()?.next_partition;
    let first = *next;
    *next = first.checked_add(u64::from(count)).ok_or_else(|| Error::fatal("there is no id left for a partition"))?;
    Ok((first..*next).map(PartitionId).collect())
}

/// Takes over partitions that a folder has given to a service before.
fn adopt(state: &mut ControlState, name: &str, ids: Vec<PartitionId>, count: u32) -> Result<Vec<PartitionId>> {
    if ids.len() != count as usize {
        return Err(Error::invalid(format!(
            "service {name} has {} partitions on record and is cut into {count}: register it as it was",
            ids.len()
        )));
    }
    let taken: BTreeSet<PartitionId> =
        state.services.values().flat_map(|service| &service.partitions).map(|placed| placed.id).collect();
    if let Some(twice) = ids.iter().find(|id| taken.contains(id)) {
        return Err(Error::invalid(format!("partition {twice} of service {name} is one of another service already")));
    }
    let highest = ids.iter().map(|id| id.0).max().unwrap_or(0);
    let next = &mut state.cluster_mut()?.next_partition;
    *next = (*next).max(highest.saturating_add(1));
    Ok(ids)
}
