use std::collections::VecDeque;
use std::time::Duration;

use mainstay::service::Services;
use mainstay::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

/// Callers that wait for permits in a process, first come, first served, up to a bound.
pub(super) struct Line<G> {
    waiting: VecDeque<Waiter<G>>,
    waiting_max: usize,
    /// Why nobody is served any more.
    ended: Option<String>,
}

struct Waiter<G> {
    permits: u64,
    sender: oneshot::Sender<Result<G>>,
}

/// The place of a caller in the line. It is given up when this is dropped.
#[must_use = "a caller that does not wait has no place in the line"]
pub(super) struct QueuedCaller<G> {
    permits: u64,
    receiver: oneshot::Receiver<Result<G>>,
}

impl<G> QueuedCaller<G> {
    /// Waits for the permits, for so long at most by the clock of the node.
    pub(super) async fn served(self, services: &Services, limit: &str, time: Duration) -> Result<G> {
        let permits = self.permits;
        tokio::select! {
            biased;
            granted = self.receiver => match granted {
                Ok(granted) => granted,
                Err(_) => Err(Error::fatal(format!("limit {limit:?} is not served any more"))),
            },
            () = services.sleep(time) => Err(Error::new(
                ErrorKind::Timeout,
                format!("{permits} permits of limit {limit:?} did not come within {time:?}: retry later"),
            )),
        }
    }
}

impl<G> Line<G> {
    pub(super) fn new(waiting_max: usize) -> Self {
        Self { waiting: VecDeque::new(), waiting_max, ended: None }
    }

    /// Lets a caller wait at the end of the line.
    pub(super) fn join(&mut self, permits: u64) -> Result<QueuedCaller<G>> {
        self.join_within(permits, self.waiting_max)
    }

    /// The same with another bound on how many may wait.
    pub(super) fn join_within(&mut self, permits: u64, waiting_max: usize) -> Result<QueuedCaller<G>> {
        if let Some(why) = &self.ended {
            return Err(Error::fatal(why.clone()));
        }
        if self.waiting.len() >= waiting_max {
            self.waiting.retain(|waiter| !waiter.sender.is_closed());
        }
        if self.waiting.len() >= waiting_max {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!("{waiting_max} callers wait for permits already (waiting_max): slow down and retry"),
            ));
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.push_back(Waiter { permits, sender });
        Ok(QueuedCaller { permits, receiver })
    }

    /// True if nobody waits.
    pub(super) fn is_empty(&mut self) -> bool {
        self.skip_gone();
        self.waiting.is_empty()
    }

    /// What the first needs, and what all need together.
    pub(super) fn needs(&mut self) -> (u64, u64) {
        self.skip_gone();
        let waiting = || self.waiting.iter().filter(|waiter| !waiter.sender.is_closed());
        let need = waiting().next().map_or(0, |first| first.permits);
        (need, waiting().fold(0, |sum: u64, waiter| sum.saturating_add(waiter.permits)))
    }

    /// Serves those who wait in their order, until there is not enough. Returns what could not be delivered, because its
    /// caller has gone away meanwhile: to be dropped when nothing is locked.
    pub(super) fn serve(&mut self, mut take: impl FnMut(u64) -> Option<G>) -> Vec<G> {
        let mut undelivered = Vec::new();
        loop {
            self.skip_gone();
            let Some(first) = self.waiting.front() else { break };
            let Some(granted) = take(first.permits) else { break };
            let Some(first) = self.waiting.pop_front() else { break };
            if let Err(Ok(granted)) = first.sender.send(Ok(granted)) {
                undelivered.push(granted);
            }
        }
        undelivered
    }

    /// Refuses those who wait for more than there can be.
    pub(super) fn refuse_above(&mut self, permits_max: u64, refusal: impl Fn(u64) -> Error) {
        for waiter in std::mem::take(&mut self.waiting) {
            if waiter.permits <= permits_max {
                self.waiting.push_back(waiter);
                continue;
            }
            // An error means that the caller has gone away.
            drop(waiter.sender.send(Err(refusal(waiter.permits))));
        }
    }

    /// Refuses everybody, now and from now on.
    pub(super) fn end(&mut self, why: String) {
        for waiter in self.waiting.drain(..) {
            drop(waiter.sender.send(Err(Error::fatal(why.clone()))));
        }
        self.ended = Some(why);
    }

    fn skip_gone(&mut self) {
        while self.waiting.front().is_some_and(|waiter| waiter.sender.is_closed()) {
            self.waiting.pop_front();
        }
    }
}
