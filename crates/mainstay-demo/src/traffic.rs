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
use crate::processor::EventProcessorRef;

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
    is_stopped: AtomicBool,
    is_over: AtomicBool,
    /// On which resource an event must be, for those whose user did not move meanwhile.
    expected: Mutex<Vec<(u64, u8)>>,
}

impl Traffic {
    /// So many new events from a number on, after those that were left out.
    pub fn new(homes: Homes, left_out: Vec<u64>, first: u64, events: u64) -> Self {
        let total = left_out.len() as u64 + events;
        Self {
            homes,
            latency: Latency::default(),
            left_out,
            first,
            total,
            taken: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            expected: Mutex::default(),
        }
    }

    /// Sends nothing more; what is under way ends.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
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
    pub fn expected(&self) -> Vec<(u64, u8)> {
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
                self.stop();
                outcome = Err(error);
            }
        }
        self.is_over.store(true, Ordering::Relaxed);
        outcome
    }

    async fn call(&self, processor: &EventProcessorRef, journal: &Journal) -> Result<()> {
        let mut expected = Vec::new();
        let ended = self.send_all(processor, journal, &mut expected).await;
        self.expected.lock().extend(expected);
        ended
    }

    async fn send_all(
        &self,
        processor: &EventProcessorRef,
        journal: &Journal,
        expected: &mut Vec<(u64, u8)>,
    ) -> Result<()> {
        while let Some(id) = self.take() {
            let event = Event::of(id);
            let sight = self.homes.sight(&event.user);
            let begun = Instant::now();
            while let Err(error) = processor.process(event.clone()).await {
                // Nothing has happened then, and it will.
                if !error.is_retryable() {
                    return Err(error);
                }
                tokio::time::sleep(SLOW_DOWN).await;
            }
            self.latency.add(begun.elapsed());
            let is_same = self.homes.sight(&event.user) == sight;
            expected.extend(Homes::place(sight).filter(|_| is_same).map(|place| (id, place)));
            journal.record(id).await?;
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn take(&self) -> Option<u64> {
        if self.is_stopped.load(Ordering::Relaxed) {
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
