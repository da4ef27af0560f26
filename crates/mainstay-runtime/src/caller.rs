use std::fmt;
use std::sync::Arc;

use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{Error, Result};

use crate::contract::Outcome;
use crate::host::Turn;
use crate::router::{Address, Route, Router};
use crate::slot::Ticket;
use crate::turn::carry_out;

/// How long a call may take unless its proxy says otherwise.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// What every proxy consists of: whom it calls, how to get there, and how long that may take. Cheap to clone.
#[derive(Clone)]
pub struct Caller {
    router: Arc<dyn Router>,
    address: Arc<Address>,
    timeout: Duration,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}

impl Caller {
    pub(crate) fn new(router: Arc<dyn Router>, address: Arc<Address>) -> Self {
        Self { router, address, timeout: CALL_TIMEOUT_DEFAULT }
    }

    /// The same with another time limit.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// Calls a method: `start` makes a turn of the object.
    ///
    /// A call that has begun is carried out to its end, even if the caller drops this future. Dropping it before, while it
    /// waits to be admitted, leaves nothing behind.
    pub async fn call<O, R, F>(&self, method: &'static str, start: F) -> R
    where
        O: ?Sized + Send + Sync + 'static,
        R: Outcome,
        F: FnOnce(Arc<O>) -> Turn<R> + Send,
    {
        // A limit beyond what the clock can express is no limit.
        let deadline = time::now().checked_add(self.timeout);
        match self.enter::<O>(method, deadline).await {
            Ok((object, ticket)) => carry_out(start(object), ticket, deadline).await,
            Err(error) => R::failed(error),
        }
    }

    async fn enter<O>(&self, method: &'static str, deadline: Option<Instant>) -> Result<(Arc<O>, Ticket)>
    where
        O: ?Sized + Send + Sync + 'static,
    {
        let Route::Local(slot) = self.router.route(&self.address)?;
        let ticket = slot.enter(method, deadline).await?;
        let object = ticket.object::<O>().ok_or_else(|| {
            Error::invalid(format!(
                "{} does not implement the interface of `{method}`: add it to its attribute",
                self.address
            ))
        })?;
        Ok((object, ticket))
    }
}
