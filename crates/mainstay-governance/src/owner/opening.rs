use crate::owner::Fence;

/// What a [`Resource`](crate::owner::Resource) is told when it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Who opens it, and what the fencing token belongs to: the id of the owner. It is the resource's own key, or, for a
    /// member of a pool, that key and the number of the member: `orders/3`.
    pub key: String,
    /// Which resource it is: the key of the owner or of the pool.
    pub resource: String,
    /// The number of the member, if it belongs to a pool.
    pub member: Option<u32>,
    /// The token of this opening, to be handed to whatever can refuse a stale one.
    pub fence: Fence,
}

impl Opening {
    /// The opening of a resource that has one owner.
    pub fn new(key: impl Into<String>, fence: Fence) -> Self {
        let key = key.into();
        Self { resource: key.clone(), key, member: None, fence }
    }

    /// The opening of a member of a pool.
    pub fn of_member(resource: impl Into<String>, member: u32, fence: Fence) -> Self {
        let resource = resource.into();
        Self { key: format!("{resource}/{member}"), resource, member: Some(member), fence }
    }
}
