//! How a shard writes: through to the source, or into its buffer and from there to the source, one batch at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use mainstay::prelude::*;

use super::{CacheShardActor, FLUSH, FLUSHES_WAITING_MAX, Storing, Write, overloaded};
use crate::cache::buffer::Buffer;
use crate::cache::source::CacheSource;
use crate::metric::Operation;

impl<S: CacheSource> CacheShardActor<S> {
    /// Buffers a write, and says as which version.
    pub(super) fn put_behind(
        &mut self,
        key: S::Key,
        value: Option<S::Value>,
        buffered_max: usize,
        flush_after: Duration,
    ) -> Result<u64> {
        if self.buffer.len() >= buffered_max && !self.buffer.contains(&key) {
            return Err(self.full(buffered_max));
        }
        Buffer::check(&key, &value)?;
        if self.buffer.is_empty() || self.ctx.reminder(FLUSH)?.is_none() {
            self.ctx.remind(FLUSH).after(flush_after).every(flush_after).set()?;
        }
        self.supersede(&key);
        self.entries.remove(&key);
        let version = self.buffer.put(self.ctx.state_mut(), key, value)?;
        self.metrics.buffered.set(self.buffer.len() as u64);
        if self.buffer.len() >= self.provision.settings().batch_max {
            self.store()?;
        }
        Ok(version)
    }

    /// Writes the next batch, unless one is on its way.
    pub(super) fn store(&mut self) -> Result<()> {
        if self.storing.is_some() {
            return Ok(());
        }
        let batch_max = self.provision.settings().batch_max;
        let (storing, batch) = if self.through.is_empty() {
            let batch = self.buffer.next_batch(batch_max);
            let versions = batch.iter().map(|(key, _, version)| (key.clone(), *version)).collect();
            let batch: Vec<_> = batch.into_iter().map(|(key, value, _)| (key, value)).collect();
            (Storing::Behind(versions), batch)
        } else {
            let writes: Vec<Write<S::Key, S::Value>> =
                self.through.drain(..batch_max.min(self.through.len())).collect();
            // Of several writes of one key the last one counts.
            let last: BTreeMap<_, _> = writes.iter().map(|write| (write.key.clone(), write.value.clone())).collect();
            (Storing::Through(writes), last.into_iter().collect())
        };
        if batch.is_empty() {
            return Ok(());
        }
        let provision = self.provision.share();
        self.ctx.then(async move { provision.store(&batch).await }, Self::stored)?;
        self.storing = Some(storing);
        Ok(())
    }

    async fn stored(&mut self, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            self.metrics.failed(Operation::Store);
        }
        match (self.storing.take(), outcome) {
            (None, _) => {}
            (Some(Storing::Through(writes)), outcome) => self.stored_through(writes, outcome),
            (Some(Storing::Behind(written)), Ok(())) => {
                for (key, value) in self.buffer.written(self.ctx.state_mut(), written)? {
                    self.keep(key, value);
                }
                self.metrics.buffered.set(self.buffer.len() as u64);
                self.answer_flushing();
                if self.buffer.is_empty() {
                    self.ctx.cancel_reminder(FLUSH)?;
                }
            }
            (Some(Storing::Behind(unwritten)), Err(error)) => {
                let buffered = self.buffer.len();
                tracing::warn!(cache = S::NAME, buffered, ?error, "writes could not be written, will be tried again");
                self.buffer.refused(unwritten, error.is_retryable());
                for (_, responder) in self.flushing.drain(..) {
                    responder.respond(Err(Error::new(error.kind(), error.to_string())));
                }
            }
        }
        self.store_on()
    }

    fn stored_through(&mut self, writes: Vec<Write<S::Key, S::Value>>, outcome: Result<()>) {
        for Write { key, value, responder } in writes {
            self.supersede(&key);
            match &outcome {
                Ok(()) => {
                    self.keep(key, value);
                    responder.respond(Ok(()));
                }
                Err(error) => {
                    // What the source has now, nobody knows.
                    self.entries.remove(&key);
                    responder.respond(Err(Error::new(error.kind(), error.to_string())));
                }
            }
        }
    }

    /// Goes on with what need not wait to be gathered.
    fn store_on(&mut self) -> Result<()> {
        let is_full = self.buffer.ready() >= self.provision.settings().batch_max;
        let is_urgent = is_full || !self.flushing.is_empty() || self.buffer.is_sorting_out();
        if is_urgent || !self.through.is_empty() { self.store() } else { Ok(()) }
    }

    /// Refuses one more who wants to wait for the buffer, if there are too many. To be asked before anything is changed.
    pub(super) fn make_room_to_wait(&mut self) -> Result<()> {
        if self.flushing.len() >= FLUSHES_WAITING_MAX {
            self.flushing.retain(|(_, responder)| !responder.is_abandoned());
        }
        if self.flushing.len() >= FLUSHES_WAITING_MAX {
            let text =
                format!("{FLUSHES_WAITING_MAX} wait for a shard of {} to be flushed (FLUSHES_WAITING_MAX)", S::NAME);
            return Err(overloaded(text));
        }
        Ok(())
    }

    pub(super) fn answer_flushing(&mut self) {
        let oldest = self.buffer.oldest_version().unwrap_or(u64::MAX);
        for (_, responder) in self.flushing.extract_if(.., |(version, _)| *version < oldest) {
            responder.respond(Ok(()));
        }
    }

    pub(super) fn full(&self, buffered_max: usize) -> Error {
        overloaded(format!("{buffered_max} writes wait in one shard of {} already (buffered_max)", S::NAME))
    }
}
