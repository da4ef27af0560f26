//! The callers: many at once, each sends one event after another and waits until it is acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mainstay::prelude::*;
use parking_lot::Mutex;

use crate::event::Event;
use crate::journal::Journal;
use crate::latency::Latency;
use crate::moves::Homes;
use crate::numbers::Places;
use crate::processor::EventProcessorRef;
use crate::stop::Stop;

/// How long a caller waits that was told to slow down.
const SLOW_DOWN: Duration = Duration::from_millis(5);

/// What is to be sent, and how far it has come.
#[derive(Debug)]
pub struct Traffic {
    /// Where users live.
    pub homes: Homes,
    /// How long an event takes to be acknowledged.
    pub latency: Latency,
    /// Numbers that an earlier run has left out.
    left_out: Vec<u64>,
    /// The first new number, and how many are to be sent in all.
    first: u64,
    total: u64,
    taken: AtomicU64,
    acknowledged: AtomicU64,
    stop: Stop,
    is_over: AtomicBool,
    /// On which resource an event must be, for those whose user did not move meanwhile.
    expected: Mutex<Places>,
}

impl Traffic {
    /// So many new events from a number on, after those that were left out, until an end is asked for.
    pub fn new(homes: Homes, left_out: Vec<u64>, first: u64, events: u64, stop: Stop) -> Self {
        let total = left_out.len() as u64 + events;
        Self {
            homes,
            latency: Latency::default(),
            left_out,
            first,
            total,
            taken: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            stop,
            is_over: AtomicBool::new(false),
            expected: Mutex::default(),
        }
    }

    /// True if nothing is sent any more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// How many events are to be sent.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many have been sent.
    pub fn sent(&self) -> u64 {
        self.taken.load(Ordering::Relaxed).min(self.total)
    }

    /// How many have been acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// On which resource events must be.
    pub fn expected(&self) -> Places {
        self.expected.lock().clone()
    }

    /// Lets so many callers send until everything is acknowledged, or it is stopped.
    ///
    /// # Errors
    /// The first error of a caller that does not pass.
    pub async fn run(self: &Arc<Self>, callers: u64, processor: &EventProcessorRef, journal: &Journal) -> Result<()> {
        let callers: Vec<_> = (0..callers)
            .map(|_| {
                let (traffic, processor, journal) = (self.clone(), processor.clone(), journal.clone());
                tokio::spawn(async move { traffic.call(&processor, &journal).await })
            })
            .collect();
        let mut outcome = Ok(());
        for caller in callers {
            let ended = caller.await.map_err(|error| Error::fatal("a caller panicked").with_source(error));
            if let Err(error) = ended.and_then(|ended| ended)
                && outcome.is_ok()
            {
                self.stop.ask();
                outcome = Err(error);
            }
        }
        self.is_over.store(true, Ordering::Relaxed);
        outcome
    }

    async fn call(&self, processor: &EventProcessorRef, journal: &Journal) -> Result<()> {
        while let Some(id) = self.take() {
            let event = Event::of(id);
            let sight = self.homes.sight(&event.user);
            let begun = Instant::now();
            while let Err(error) = processor.process(event.clone()).await {
                // Nothing has happened then, and it will: in this run, or in the next one if it is to end.
                if !error.is_retryable() {
                    return Err(error);
                }
                if self.stop.is_asked() {
                    return Ok(());
                }
                tokio::time::sleep(SLOW_DOWN).await;
            }
            self.latency.add(begun.elapsed());
            let is_same = self.homes.sight(&event.user) == sight;
            if let Some(place) = Homes::place(sight).filter(|_| is_same) {
                self.expected.lock().insert(id, place)?;
            }
            journal.record(id).await?;
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn take(&self) -> Option<u64> {
        if self.stop.is_asked() {
            return None;
        }
        let place = self.taken.fetch_add(1, Ordering::Relaxed);
        if place >= self.total {
            return None;
        }
        let left_out = self.left_out.len() as u64;
        Some(self.left_out.get(place as usize).copied().unwrap_or_else(|| self.first + (place - left_out)))
    }
}
