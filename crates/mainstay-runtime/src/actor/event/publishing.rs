use std::sync::Arc;

use mainstay_core::{Error, Result};

use crate::actor::context::Context;
use crate::actor::event::definition::Event;
use crate::call::current;

impl Context {
    /// Publishes an event to whoever has [subscribed](crate::Proxy::events).
    ///
    /// It leaves when the turn is durable, after those of the turns before, and never if the turn fails: nobody hears of
    /// what did not happen. Nobody is waited for. The number of events that the actor has published is stored with the
    /// turn, so that whoever was away can be told how many there were meanwhile; this is all that it costs if nobody
    /// listens.
    ///
    /// # Errors
    /// `Invalid` outside of a turn of this actor, `TooLarge` if the name of the event is too long.
    pub fn publish<E: Event>(&self, event: E) -> Result<()> {
        if !current::shared().is_some_and(|shared| Arc::ptr_eq(&shared, &self.shared)) {
            self.shared.partition.check_attached(format_args!("event {} of {}", E::NAME, self.shared))?;
            return Err(Error::invalid(format!(
                "{} can publish {} in a turn of its own only: do it in a method, a timer or a reminder",
                self.shared,
                E::NAME
            )));
        }
        current::change(|writes| writes.publish(E::NAME))?;
        let shared = self.shared.clone();
        current::leave(move |result| {
            if result.is_ok() {
                shared.departures.add(E::NAME, event);
            }
        });
        Ok(())
    }
}
