//! How a shard forgets an entity: like a move, to nowhere.

use mainstay::prelude::*;

use super::ResolverShardActor;
use crate::resolve::entity::{Entity, stored_name};

impl ResolverShardActor {
    /// Forgets an entity, if it is known. Whoever resolved it before is told, as if it had moved.
    pub(super) fn forget_one(&mut self, entity: &Entity) -> Result<()> {
        let Some(partition) = self.partition_of(entity)? else { return Ok(()) };
        self.note_move(entity)?;
        self.unload(partition);
        self.ctx.state_mut().try_remove(&stored_name(entity)).map(drop)
    }
}
