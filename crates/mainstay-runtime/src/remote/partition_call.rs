use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ActorId, Error, ErrorKind, Result};

use crate::call::arrival::Method;
use crate::remote::outgoing::{OutgoingCall, OutgoingParts};
use crate::remote::remote_calls::RemoteRoute;
use crate::router::{Address, Route, Router};
use crate::slot::SlotState;

/// Something that the runtime asks the primary of a partition, on behalf of no turn.
pub(crate) struct PartitionCall<'c> {
    pub(crate) router: &'c Arc<dyn Router>,
    pub(crate) address: &'c Arc<Address>,
    pub(crate) actor: Option<&'c ActorId>,
    pub(crate) method: &'static Method,
    pub(crate) arguments: Bytes,
    pub(crate) time_limit: Duration,
}

/// Where the primary of a partition is, by what this node knows.
pub(crate) fn elsewhere(router: &dyn Router, address: &Address) -> Result<Option<RemoteRoute>> {
    match router.route(address)? {
        Route::Remote(route) => Ok(Some(route)),
        Route::Local(slot) => match slot.state() {
            SlotState::PrimaryElsewhere(node) if router.remote().is_some() => {
                Ok(Some(RemoteRoute { node: Some(node), epoch: None }))
            }
            _ => Ok(None),
        },
    }
}

impl PartitionCall<'_> {
    /// Asks until there is an answer; `None` once the partition is here.
    ///
    /// # Errors
    /// As those of a call.
    pub(crate) async fn run(self) -> Result<Option<Bytes>> {
        let Self { router, address, actor, method, arguments, time_limit } = self;
        let session = router.remote().cloned().ok_or_else(|| {
            Error::new(
                ErrorKind::NotPrimary { hint: None },
                format!("{address} is not here, and there is no way to others"),
            )
        })?;
        let mut outgoing = OutgoingCall::new(OutgoingParts {
            session,
            router: router.clone(),
            address: address.clone(),
            actor: actor.cloned(),
            method,
            arguments,
            key: None,
            chain: Vec::new(),
            deadline: time::now().checked_add(time_limit),
            is_at_most_once: false,
            answers_later: false,
        })?;
        loop {
            let route = match outgoing.take_next() {
                Some(route) => route,
                None => match elsewhere(&**router, address)? {
                    Some(route) => route,
                    None => return Ok(None),
                },
            };
            if let Some(reply) = outgoing.attempt(route).await? {
                return Ok(Some(reply));
            }
        }
    }
}
