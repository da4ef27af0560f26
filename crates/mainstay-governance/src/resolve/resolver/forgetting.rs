use std::collections::BTreeMap;

use mainstay::prelude::*;

use super::{MOVE_TIME_MAX, Resolver};
use crate::resolve::entity::{Entity, checked};
use crate::resolve::shard::{PLACED_TOGETHER_MAX, shard_index};

impl Resolver {
    /// Forgets an entity, and frees its place. When this returns, no holder begins a call under what was resolved before:
    /// `begin` and a [`Guard`](crate::resolve::Guard) refuse it as [`Moved`](crate::resolve::Moved). Calls that had begun may
    /// still run, as after a move. One that is not known is fine.
    ///
    /// An entity that is resolved later is a new one, which the policy places anew. A
    /// [source](crate::resolve::ResolutionSource) that still names it brings it back with its next copy.
    ///
    /// # Errors
    /// As [`move_entity`](Resolver::move_entity): if it fails while it is under way, it either has not happened or is made
    /// known by itself.
    pub async fn forget(&self, entity: impl Into<Entity>) -> Result<()> {
        self.forget_all([entity]).await
    }

    /// Forgets many entities: as [`forget`](Resolver::forget), in as few steps as it takes. If it fails, some of them are
    /// forgotten and the others are not: forget them all again.
    ///
    /// # Errors
    /// As [`forget`](Resolver::forget).
    pub async fn forget_all(&self, entities: impl IntoIterator<Item = impl Into<Entity>>) -> Result<()> {
        let mut by_shard: BTreeMap<usize, Vec<Entity>> = BTreeMap::new();
        for entity in entities {
            let entity = checked(entity.into())?;
            let shard = shard_index(&entity, self.shards.len());
            let together = by_shard.entry(shard).or_default();
            together.push(entity);
            if together.len() >= PLACED_TOGETHER_MAX {
                let together = std::mem::take(together);
                self.forget_together(together).await?;
            }
        }
        for together in by_shard.into_values() {
            self.forget_together(together).await?;
        }
        Ok(())
    }

    /// Forgets entities of one shard.
    async fn forget_together(&self, entities: Vec<Entity>) -> Result<()> {
        let Some(first) = entities.first() else { return Ok(()) };
        let shard = self.shard(first)?.with_timeout(MOVE_TIME_MAX);
        shard.forget(entities).await
    }
}
