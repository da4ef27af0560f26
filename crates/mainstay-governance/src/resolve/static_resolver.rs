use std::collections::BTreeMap;

use mainstay::{Error, ErrorKind, Result};

use super::entity::{Entity, spread};
use super::physical_resource::PhysicalResource;

/// Which resource of a region an entity lives on, by arithmetic alone: nothing is asked, kept or shared, and whoever asks
/// with the same resources gets the same answer.
///
/// A number goes by its euclidean remainder, a text or a uuid by its hash. The price of needing no memory is that nothing
/// can be moved: other resources, or another order of them, are other answers. A [`Resolver`](super::Resolver) can.
///
/// ```
/// use mainstay::governance::resolve::{PhysicalResource, StaticResolver};
///
/// let resolver = StaticResolver::new([
///     PhysicalResource::new("eu-1").in_region("eu"),
///     PhysicalResource::new("eu-2").in_region("eu"),
///     PhysicalResource::new("us-1").in_region("us"),
/// ])?;
/// assert_eq!(resolver.resolve(6, "eu")?.name, "eu-1");
/// assert_eq!(resolver.resolve(-1, "eu")?.name, "eu-2");
/// assert_eq!(resolver.resolve(-1, "us")?.name, "us-1");
/// assert!(resolver.resolve(6, "asia").unwrap_err().to_string().contains("\"eu\", \"us\""));
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StaticResolver {
    regions: BTreeMap<String, Vec<PhysicalResource>>,
}

impl StaticResolver {
    /// A resolver over these resources; their order within a region matters. Those without a region are in the region `""`.
    ///
    /// # Errors
    /// `Invalid` for a resource that cannot be, or two of one name.
    pub fn new(resources: impl IntoIterator<Item = PhysicalResource>) -> Result<Self> {
        let mut regions = BTreeMap::<String, Vec<PhysicalResource>>::new();
        for resource in resources {
            resource.check()?;
            if regions.values().flatten().any(|known| known.name == resource.name) {
                return Err(Error::invalid(format!("there are two resources {:?}: name them apart", resource.name)));
            }
            regions.entry(resource.region.clone().unwrap_or_default()).or_default().push(resource);
        }
        Ok(Self { regions })
    }

    /// The resource of an entity in a region.
    ///
    /// # Errors
    /// `NotFound` for a region without resources.
    pub fn resolve(&self, entity: impl Into<Entity>, region: &str) -> Result<&PhysicalResource> {
        let entity = entity.into();
        let resources = self.regions.get(region).map_or(&[][..], Vec::as_slice);
        let index = match &entity {
            Entity::Number(number) => i64::try_from(resources.len())
                .ok()
                .and_then(|count| number.checked_rem_euclid(count))
                .and_then(|index| usize::try_from(index).ok()),
            _ => Some(spread(&entity, "static", resources.len())),
        };
        index.and_then(|index| resources.get(index)).ok_or_else(|| {
            let known: Vec<String> = self.regions.keys().map(|region| format!("{region:?}")).collect();
            Error::new(
                ErrorKind::NotFound,
                format!("region {region:?} has no resources for {entity}: there are {}", known.join(", ")),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolver() -> StaticResolver {
        let eu = (0..4).map(|number| PhysicalResource::new(format!("eu-{number}")).in_region("eu"));
        let us = (0..3).map(|number| PhysicalResource::new(format!("us-{number}")).in_region("us"));
        StaticResolver::new(eu.chain(us)).unwrap()
    }

    #[test]
    fn the_remainder_is_euclidean_at_both_ends_of_the_numbers() {
        let resolver = resolver();
        for (entity, name) in [(6, "eu-2"), (-1, "eu-3"), (-4, "eu-0"), (i64::MIN, "eu-0"), (i64::MAX, "eu-3")] {
            assert_eq!(resolver.resolve(entity, "eu").unwrap().name, name);
        }
    }

    #[test]
    fn texts_are_spread_over_all_and_stay_where_they_are() {
        let resolver = resolver();
        let names = |_| (0..100).map(|n| resolver.resolve(format!("user {n}"), "us").unwrap().name.clone());
        let first: Vec<String> = names(0).collect();
        assert_eq!(names(1).collect::<Vec<_>>(), first);
        for name in ["us-0", "us-1", "us-2"] {
            assert!(first.iter().filter(|it| *it == name).count() > 20);
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let twice =
            StaticResolver::new([PhysicalResource::new("a"), PhysicalResource::new("a").in_region("eu")]).unwrap_err();
        assert!(twice.to_string().contains("two resources \"a\""));
        assert_eq!(StaticResolver::new([]).unwrap().resolve(1, "").unwrap_err().kind(), ErrorKind::NotFound);
    }
}
