//! The floor: a task that owns a number, a channel to it and a channel back. No library, so no peer: nothing is started
//! again when it panics, found by a name, watched or bounded in time.

use std::path::Path;

use mainstay_core::task;
use tokio::sync::{mpsc, oneshot};

use crate::actors::counter::{Counter, Library};
use crate::outcome::Outcome;

/// Room for a message of each caller.
const MAILBOX: usize = 64;

pub(in crate::actors) struct Tokio;

/// What to add, and where to answer.
type Add = (i64, oneshot::Sender<i64>);

impl Library for Tokio {
    type Counter = mpsc::Sender<Add>;

    async fn open(_: &Path) -> Outcome<Self> {
        Ok(Self)
    }

    async fn start(&self, _: u64) -> Outcome<Self::Counter> {
        let (sender, mut receiver) = mpsc::channel::<Add>(MAILBOX);
        task::spawn(async move {
            let mut count = 0;
            while let Some((n, reply)) = receiver.recv().await {
                count += n;
                // Whoever has gone meanwhile needs no answer.
                let _ = reply.send(count);
            }
        });
        Ok(sender)
    }

    async fn close(self) {}
}

impl Counter for mpsc::Sender<Add> {
    async fn add(&self, n: i64) -> Outcome<i64> {
        let (reply, answer) = oneshot::channel();
        self.send((n, reply)).await?;
        Ok(answer.await?)
    }
}
