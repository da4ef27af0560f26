use mainstay_cluster::control::record::ServiceRecord;
use mainstay_core::partitioning::Partitioning;
use mainstay_core::{Error, Result};

use crate::settings::{Origin, ServiceSettings};

/// Refuses a service that is set otherwise than its data is.
///
/// # Errors
/// `Invalid`, with the place where it is set.
pub(crate) fn check_recorded(record: &ServiceRecord, service: &ServiceSettings) -> Result<()> {
    let name = &service.name;
    let ServiceSettings { partitioning, level, .. } = service;
    if record.partitioning != partitioning.value {
        let (recorded, origin) = (&record.partitioning, &partitioning.origin);
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
    if record.level != level.value {
        return Err(Error::invalid(format!(
            "service {name} is recorded with persistence \"{}\" and {} \"{}\", where its state is not: set `persistence \
             = \"{}\"` {} again, or give it another `name` in its attribute to start without the state",
            record.level,
            said_by(&level.origin),
            level.value,
            record.level,
            there(&level.origin),
        )));
    }
    Ok(())
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
