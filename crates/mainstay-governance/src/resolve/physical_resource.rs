use mainstay::{Error, Result};
use serde::{Deserialize, Serialize};

/// The longest name, region or address of a resource.
pub const RESOURCE_TEXT_BYTES_MAX: usize = 1024;

/// How many logical partitions a resource brings unless told otherwise: in so many pieces it can be moved away.
pub const PARTITIONS_PER_RESOURCE_DEFAULT: u32 = 16;

/// Something that entities live on: a database, a server, an account, by its name and where it is. How such a thing is
/// opened and used is said by an [`owner::Resource`](crate::owner::Resource), whose key may be this name.
///
/// ```
/// use mainstay::governance::resolve::PhysicalResource;
///
/// let resource = PhysicalResource::new("db1").in_region("eu").at("postgres://db1.example/users");
/// assert_eq!(resource.region.as_deref(), Some("eu"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhysicalResource {
    /// What tells it from the others of its resolver.
    pub name: String,
    /// The region that it is in, if regions matter.
    pub region: Option<String>,
    /// How to reach it, in whatever form its users understand: a connection string, a folder.
    pub address: String,
    /// How many logical partitions come with it when it is added.
    pub partitions: u32,
}

impl PhysicalResource {
    /// A resource that is reached by its name.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { address: name.clone(), name, region: None, partitions: PARTITIONS_PER_RESOURCE_DEFAULT }
    }

    /// The same resource in a region.
    #[must_use]
    pub fn in_region(self, region: impl Into<String>) -> Self {
        Self { region: Some(region.into()), ..self }
    }

    /// The same resource at an address.
    #[must_use]
    pub fn at(self, address: impl Into<String>) -> Self {
        Self { address: address.into(), ..self }
    }

    /// The same resource with another number of logical partitions.
    #[must_use]
    pub fn with_partitions(self, partitions: u32) -> Self {
        Self { partitions, ..self }
    }

    /// Refuses what cannot be a resource.
    pub(super) fn check(&self) -> Result<()> {
        let texts = [("name", Some(&self.name)), ("region", self.region.as_ref()), ("address", Some(&self.address))];
        for (what, text) in texts {
            if let Some(text) = text.filter(|text| text.is_empty() || text.len() > RESOURCE_TEXT_BYTES_MAX) {
                return Err(Error::invalid(format!(
                    "the {what} of a resource has {} bytes: use 1 to {RESOURCE_TEXT_BYTES_MAX} \
                     (RESOURCE_TEXT_BYTES_MAX)",
                    text.len()
                )));
            }
        }
        if self.partitions == 0 {
            return Err(Error::invalid(format!(
                "resource {:?} brings no partition, and so nothing could live on it: give it at least one",
                self.name
            )));
        }
        Ok(())
    }
}
