//! How a subscriber hears the events of an actor on another node.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ActorId, Backoff, Result, contract, random};
use mainstay_state::actor::Published;
use rand::Rng as _;
use tokio::sync::oneshot;

use crate::actor::event::definition::AnyEvent;
use crate::actor::event::inbox::Inbox;
use crate::actor::event::lease::{POLL, POLL_WAIT_MAX, PollReply, PollRequest, Told};
use crate::actor::settings::ActorSettings;
use crate::remote::partition_call::{PartitionCall, elsewhere};
use crate::router::{Address, Route, Router};
use crate::slot::SlotState;

/// How long a request for events is tried before the route is looked up anew.
const TIME_LIMIT: Duration = Duration::from_secs(2 * POLL_WAIT_MAX.as_secs());

/// An event as it came from another node.
struct EncodedEvent(Bytes);

impl AnyEvent for EncodedEvent {
    fn encode(&self) -> Result<Vec<u8>> {
        Ok(self.0.to_vec())
    }
}

/// Brings events of an actor into an inbox while the actor is on another node. While it is on this one they come by themselves.
pub(crate) struct EventFeed {
    pub(crate) router: Arc<dyn Router>,
    pub(crate) address: Arc<Address>,
    pub(crate) actor: ActorId,
    pub(crate) event: Arc<str>,
    pub(crate) inbox: Weak<Inbox>,
}

impl EventFeed {
    /// Starts it, until what is returned is dropped.
    pub(crate) fn start(self) -> oneshot::Sender<()> {
        let (subscribed, mut ended) = oneshot::channel();
        let home = self.router.home().clone();
        home.spawn(async move {
            tokio::select! {
                biased;
                _ = &mut ended => {}
                () = self.keep() => {}
            }
        });
        subscribed
    }

    async fn keep(self) {
        let (subscription, mut arrived) = (random::rng().next_u64(), (0, 0));
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2)).retries();
        loop {
            match self.ask(subscription, arrived).await {
                Ok(Some(reply)) => {
                    backoff.reset();
                    arrived = (reply.lease, reply.number);
                    let Some(inbox) = self.inbox.upgrade() else { return };
                    put(&inbox, reply);
                }
                // It is here.
                Ok(None) => match self.router.route(&self.address) {
                    Ok(Route::Local(slot)) => {
                        slot.elsewhere().await;
                        if matches!(slot.state(), SlotState::Stopped) && !slot.is_detached() {
                            return;
                        }
                        tokio::task::yield_now().await;
                    }
                    Ok(Route::Remote(_)) => {}
                    Err(_) => return,
                },
                Err(error) => {
                    tracing::debug!(address = %self.address, actor = %self.actor, ?error, "events of another node are not heard");
                    if self.inbox.strong_count() == 0 {
                        return;
                    }
                    time::sleep(backoff.pause()).await;
                }
            }
        }
    }

    async fn ask(&self, subscription: u64, (lease, arrived): (u64, u64)) -> Result<Option<PollReply>> {
        if elsewhere(&*self.router, &self.address)?.is_none() {
            return Ok(None);
        }
        let request = PollRequest { subscription, event: self.event.to_string(), lease, arrived };
        let call = PartitionCall {
            router: &self.router,
            address: &self.address,
            actor: Some(&self.actor),
            method: &POLL,
            arguments: contract::encode(&request)?.into(),
            time_limit: TIME_LIMIT,
        };
        call.run().await?.map(|reply| contract::decode(&reply)).transpose()
    }
}

/// Puts what has come into an inbox, which counts what is missing by the numbers.
fn put(inbox: &Inbox, reply: PollReply) {
    let published = |(life, count)| Published { life, count };
    inbox.start(reply.start.map(published));
    let waiting_max = ActorSettings::default().events_buffer;
    for told in reply.told {
        match told {
            Told::Event { bytes, number } => {
                let number = number.map(published);
                // What has come by another way already, while the role moved.
                let is_known = inbox
                    .last_number()
                    .zip(number)
                    .is_some_and(|(last, number)| last.life == number.life && number.count <= last.count);
                if !is_known {
                    inbox.push(Arc::new(EncodedEvent(bytes)), number, waiting_max);
                }
            }
            Told::Deleted => inbox.delete(),
        }
    }
}
