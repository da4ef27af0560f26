use crate::owner::{Claim, Fence, FenceLineage, Holder};

/// What a [`Resource`](crate::owner::Resource) is told when it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// What is opened: the id of the owner. It is the resource's own key, or, for a member of a pool, that key and the number
    /// of the member: `orders/3`.
    pub key: String,
    /// Which resource it is: the key of the owner or of the pool.
    pub resource: String,
    /// The number of the member, if it belongs to a pool.
    pub member: Option<u32>,
    /// Who opens it. Actors of several services may have one key: the token belongs to the holder.
    pub holder: Holder,
    /// The token of this opening, to be handed to whatever can refuse a stale one.
    pub fence: Fence,
    /// The line of tokens that the token belongs to.
    pub lineage: FenceLineage,
}

impl Opening {
    /// The opening of a resource that has one owner, by a [program](Holder::program) unless told otherwise.
    pub fn new(key: impl Into<String>, fence: Fence) -> Self {
        let key = key.into();
        Self { resource: key.clone(), key, member: None, holder: Holder::program(), fence, lineage: FenceLineage::NONE }
    }

    /// The opening of a member of a pool.
    pub fn of_member(resource: impl Into<String>, member: u32, fence: Fence) -> Self {
        let resource = resource.into();
        Self { key: format!("{resource}/{member}"), resource, member: Some(member), ..Self::new("", fence) }
    }

    /// The same by this holder.
    #[must_use]
    pub fn held_by(mut self, holder: impl Into<Holder>) -> Self {
        self.holder = holder.into();
        self
    }

    /// The same in this lineage of the holder.
    #[must_use]
    pub fn in_lineage(mut self, lineage: FenceLineage) -> Self {
        self.lineage = lineage;
        self
    }

    /// The same holder with the same token, for something that is called otherwise outside.
    #[must_use]
    pub fn for_key(&self, key: impl Into<String>) -> Self {
        let key = key.into();
        Self { resource: key.clone(), key, member: None, ..self.clone() }
    }

    /// What is outside remembers of it, to know who may write.
    pub fn claim(&self) -> Claim {
        Claim { holder: self.holder.clone(), fence: self.fence, lineage: self.lineage }
    }
}
