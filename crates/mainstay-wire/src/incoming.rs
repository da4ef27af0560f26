use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::time::{self, Instant};
use mainstay_core::{Error, ErrorKind, Result, task};

use crate::cancellation::Cancellation;
use crate::channel::Channel;
use crate::class::Class;
use crate::kind::Kind;
use crate::party::{Peer, Sender};
use crate::policy::Introduction;

/// A message that has arrived. It takes one of the places that its sender was granted, until it is dropped or its answer has left.
///
/// A request that is dropped without an answer is answered with `OutcomeUnknown`.
#[derive(Debug)]
pub struct Incoming {
    class: Class,
    kind: Kind,
    body: Bytes,
    deadline: Option<Instant>,
    place: GrantedPlace,
}

/// The place of a message among those that its sender was granted.
pub(crate) struct GrantedPlace {
    pub(crate) channel: Arc<Channel>,
    pub(crate) from: Arc<Introduction>,
    pub(crate) class: Class,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    /// The number of a request, until it is answered.
    pub(crate) request: Option<(u64, Arc<Cancellation>)>,
    pub(crate) is_free: bool,
}

impl Incoming {
    pub(crate) fn new(body: Bytes, deadline: Option<Instant>, place: GrantedPlace) -> Self {
        Self { class: place.class, kind: place.kind, body, deadline, place }
    }

    /// Who has sent it. With TLS this is what the certificate says.
    pub fn sender(&self) -> &Sender {
        &self.place.from.sender
    }

    /// What messages to its sender are addressed to.
    pub fn peer(&self) -> Peer {
        self.place.from.peer
    }

    /// What is known of its sender.
    pub fn introduction(&self) -> &Introduction {
        &self.place.from
    }

    /// Its class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// What it means.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its bytes. They are shared, so that a clone costs little.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Does its sender wait for an answer?
    pub fn wants_answer(&self) -> bool {
        self.place.request.is_some()
    }

    /// How long its sender waits from now on, where that is limited.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(time::now()))
    }

    /// True once nobody waits for the answer: the caller has gone away, or the connection has.
    pub fn is_cancelled(&self) -> bool {
        self.place.request.as_ref().is_some_and(|(_, cancellation)| cancellation.is_cancelled())
    }

    /// Waits until nobody waits for the answer; for ever if no answer is wanted.
    pub async fn cancelled(&self) {
        match &self.place.request {
            Some((_, cancellation)) => cancellation.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Answers, unless nobody waits.
    pub fn answer(mut self, outcome: Result<Bytes>) {
        self.place.answer(outcome);
    }

    /// The answer to a message of a kind that the handler does not know: nothing was done.
    pub fn refuse_kind(self) {
        let text = format!(
            "messages of kind {} are not known here, and nothing was done: a newer build may know them",
            self.kind
        );
        self.answer(Err(Error::invalid(text)));
    }

    /// Answers with what a future returns, in a task of its own. The task ends early when nobody waits for the answer any more.
    pub fn answer_later(self, future: impl Future<Output = Result<Bytes>> + Send + 'static) {
        task::spawn(async move {
            let outcome = {
                let (mut future, mut cancelled) = (pin!(future), pin!(self.cancelled()));
                std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
                    Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                    Poll::Pending => cancelled.as_mut().poll(cx).map(|()| None),
                })
                .await
            };
            if let Some(outcome) = outcome {
                self.answer(outcome);
            }
        });
    }
}

impl GrantedPlace {
    fn answer(&mut self, outcome: Result<Bytes>) {
        if let Some((id, cancellation)) = self.request.take() {
            match cancellation.is_cancelled() {
                true => self.channel.release(self.class, self.bytes, Some(id)),
                false => self.channel.answer(id, self.kind, self.class, self.bytes, outcome),
            }
            self.is_free = true;
        }
    }
}

impl Drop for GrantedPlace {
    fn drop(&mut self) {
        if self.request.is_some() {
            self.answer(Err(Error::new(ErrorKind::OutcomeUnknown, "the request was given up without an answer")));
        } else if !self.is_free {
            self.channel.release(self.class, self.bytes, None);
        }
    }
}

impl std::fmt::Debug for GrantedPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrantedPlace")
            .field("from", &self.from.sender)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
