//! Who takes an event: a worker without a state, which finds out where the user lives and hands it to the writer there.

use std::time::Duration;

use mainstay::governance::resolve::{Policy, Resolver, ResolverSettings};
use mainstay::prelude::*;

use crate::event::Event;
use crate::writer::{EventWriterRef, writer_id};

/// The resolver of users.
pub const USERS_RESOLVER: &str = "users";

/// What is done with an event.
#[interface]
pub trait EventProcessor {
    /// Takes an event; answered when it is stored. Sent again, it is taken once.
    async fn process(&self, event: Event) -> Result<()>;
}

/// A pool of these, in the process of the caller.
#[derive(Worker)]
#[worker(implements(EventProcessor), max = 256)]
pub struct EventProcessorWorker {
    ctx: WorkerContext,
}

impl EventProcessor for EventProcessorWorker {
    async fn process(&self, event: Event) -> Result<()> {
        let users = Resolver::open(&self.ctx, USERS_RESOLVER, resolver_settings()).await?;
        // If the user moves in the meantime, this is called again with the new place.
        let stored = users.with(event.user.clone(), |resolution| {
            let (ctx, event) = (self.ctx.clone(), event.clone());
            async move { append(&ctx, &resolution.resource.name, event).await }
        });
        stored.await
    }
}

async fn append(ctx: &WorkerContext, resource: &str, event: Event) -> Result<()> {
    let writer: EventWriterRef = ctx.actor(writer_id(resource, &event.kind))?;
    let writer = writer.idempotent(event.id.to_string());
    loop {
        match writer.append(event.clone()).await {
            // Here and nowhere else: if it is stored, it is stored with this writer.
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
            outcome => return outcome.map(drop),
        }
    }
}

/// How users are resolved.
pub fn resolver_settings() -> ResolverSettings {
    ResolverSettings { policy: Policy::LeastLoaded, lease: Duration::from_secs(3), ..ResolverSettings::default() }
}
