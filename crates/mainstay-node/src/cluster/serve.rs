use std::fmt;
use std::sync::{Arc, OnceLock};

use mainstay_core::time::Duration;
use mainstay_core::{Error, ErrorKind, NodeId, task};
use mainstay_runtime::Inbound;
use mainstay_wire::{Incoming, Sender, Serve};

use super::kinds::CALL;

/// The time limit of a call whose caller has not said how long it waits.
const CALL_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Serves the calls of other processes. It is made before the services are known, and refuses calls with `Retry` until then.
#[derive(Default)]
pub(crate) struct CallServe {
    inbound: OnceLock<Inbound>,
    scope: task::Scope,
}

impl fmt::Debug for CallServe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallServe").field("inbound", &self.inbound.get()).finish_non_exhaustive()
    }
}

impl CallServe {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Serves calls from now on. The first call of this counts.
    pub(crate) fn attach(&self, inbound: Inbound) {
        let _ = self.inbound.set(inbound);
    }

    /// Drops the calls that are under way.
    pub(crate) fn stop(&self) {
        self.scope.stop();
    }

    fn serve_call(&self, incoming: Incoming) {
        let Some(inbound) = self.inbound.get() else {
            let starting = Error::new(ErrorKind::Retry, "this node has just started, and serves no calls yet: retry");
            return incoming.answer(Err(starting));
        };
        // A client has no number: its calls are shown as those of node 0.
        let from = match incoming.sender() {
            Sender::Node(node) => *node,
            _ => NodeId::default(),
        };
        let remaining = incoming.remaining().unwrap_or(CALL_TIME_LIMIT);
        let answer = inbound.receive(from, incoming.body().clone(), remaining);
        self.scope.within(|| incoming.answer_later(answer));
    }
}

impl Serve for CallServe {
    fn receive(&self, incoming: Incoming) {
        match incoming.kind() {
            CALL => self.serve_call(incoming),
            _ => incoming.refuse_kind(),
        }
    }
}
