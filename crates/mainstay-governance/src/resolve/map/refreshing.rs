//! How a map copies a source: the catalog is loaded outside of its turns, and made to hold by ordinary moves.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use mainstay::actor::wall;
use mainstay::prelude::*;

use super::{ResolverMapActor, ResolverMapRef};
use crate::resolve::resolver::MOVE_TIME_MAX;
use crate::resolve::shard::{PLACED_TOGETHER_MAX, Placing, ResolverShardRef, shard_id, shard_index};
use crate::resolve::source::{Catalog, SourceStatus, Sources};

/// How many may wait for one load of a source.
const REFRESHES_WAITING_MAX: usize = 1024;

impl ResolverMapActor {
    pub(super) fn source(&self) -> Result<Arc<Sources>> {
        let sources = self.ctx.provided::<Sources>()?;
        sources.named(self.name()).map(|_| ())?;
        Ok(sources)
    }

    fn name(&self) -> &str {
        self.ctx.id().as_text().unwrap_or_default()
    }

    pub(super) fn status(&self) -> SourceStatus {
        let age = self.refreshed.map(|at| wall().saturating_duration_since(at));
        SourceStatus { age, refusal: self.refusal.clone() }
    }

    /// Begins to load the catalog, unless that is under way.
    pub(super) fn load(&mut self, responder: Option<Responder<SourceStatus>>) -> Result<()> {
        let sources = self.source()?;
        if let Some(waiting) = &mut self.loading {
            waiting.retain(|responder| !responder.is_abandoned());
            if responder.is_some() && waiting.len() >= REFRESHES_WAITING_MAX {
                return Err(Error::new(
                    ErrorKind::Overloaded,
                    format!(
                        "{REFRESHES_WAITING_MAX} wait for a source already (REFRESHES_WAITING_MAX): ask again later"
                    ),
                ));
            }
            waiting.extend(responder);
            return Ok(());
        }
        self.loading = Some(responder.into_iter().collect());
        let (name, map) = (self.name().to_owned(), self.ctx.actor::<ResolverMapRef>(self.ctx.id())?);
        let shards: Vec<ResolverShardRef> =
            (0..self.chart.shards).map(|index| self.ctx.actor(shard_id(&name, index))).collect::<Result<_>>()?;
        self.ctx.then(
            async move {
                let source = sources.named(&name)?;
                // Code of others: a panic is one of the ways in which it can fail.
                let catalog =
                    AssertUnwindSafe(async { source.load().await }).catch_unwind().await.unwrap_or_else(|_| {
                        Err(Error::fatal(format!("the source of resolver {name:?} panicked: see its text above")))
                    })?;
                adopt(catalog, map, shards).await
            },
            Self::loaded,
        )
    }

    async fn loaded(&mut self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Ok(()) => {
                *self.refreshed = Some(wall());
                self.refusal = None;
            }
            Err(error) => {
                let age_s = self.status().age.map(|age| age.as_secs());
                tracing::warn!(
                    resolver = self.name(),
                    ?error,
                    age_s,
                    "the source could not be copied: answering from the last good copy"
                );
                self.refusal = Some(error.to_string());
            }
        }
        let status = self.status();
        for responder in self.loading.take().into_iter().flatten() {
            responder.respond(Ok(status.clone()));
        }
        Ok(())
    }
}

/// Makes a catalog hold: its resources are there, and its entities on them. What was drained stays as it is.
async fn adopt(catalog: Catalog, map: ResolverMapRef, shards: Vec<ResolverShardRef>) -> Result<()> {
    catalog.check()?;
    for resource in catalog.resources {
        map.with_timeout(MOVE_TIME_MAX).adopt_resource(resource).await?;
    }
    let mut batches = vec![Vec::new(); shards.len()];
    for (entity, resource) in catalog.entities {
        if let Some(batch) = batches.get_mut(shard_index(&entity, shards.len())) {
            batch.push((entity, resource));
        }
    }
    for (shard, batch) in shards.iter().zip(batches) {
        for chunk in batch.chunks(PLACED_TOGETHER_MAX) {
            shard.with_timeout(MOVE_TIME_MAX).place(chunk.to_vec(), Placing::Adopt).await?;
        }
    }
    Ok(())
}
