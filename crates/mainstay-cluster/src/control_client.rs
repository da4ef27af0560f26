use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time::{self, Duration};
use mainstay_core::{Backoff, Error, ErrorKind, NodeId, Result};
use mainstay_wire::{Class, Endpoint, Sender};

use crate::control::{CONTROL_SET, ControlWatch, decode, encode};
use crate::controller::Controller;
use crate::formats::CONTROL_MESSAGE;
use crate::kinds::CONTROL;
use crate::message::{ControlAnswer, ControlRequest};
use crate::node_sets::NodeSets;

/// The pauses between attempts to find the primary of the control set.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// How long one node is waited for before another one is asked.
const ATTEMPT_TIME_LIMIT: Duration = Duration::from_secs(5);

/// Sends requests to the controller, wherever the primary of the control set is. Clones are the same one.
///
/// A request is sent again, to where it was redirected or to the next member of the control set, until it is answered or its time
/// is over. Each can be sent again without harm, so that an outcome that is not known is asked for again.
#[derive(Clone)]
pub struct ControlClient {
    node: NodeId,
    endpoint: Endpoint,
    sets: Arc<dyn NodeSets>,
    control: ControlWatch,
    controller: Controller,
    /// Where other nodes were when this one started: for a node whose control state is still empty.
    peers: Arc<[NodeId]>,
}

impl ControlClient {
    pub(crate) fn new(
        (node, endpoint): (NodeId, Endpoint),
        sets: Arc<dyn NodeSets>,
        control: ControlWatch,
        controller: Controller,
        peers: Vec<NodeId>,
    ) -> Self {
        Self { node, endpoint, sets, control, controller, peers: peers.into() }
    }

    /// Sends a request of this node, and waits for the answer for so long at most.
    ///
    /// # Errors
    /// What the controller refuses it with; `Timeout` if none was reached, and `OutcomeUnknown` if one may have carried it out.
    pub async fn request(&self, request: &ControlRequest, time_limit: Duration) -> Result<ControlAnswer> {
        let body: Bytes = encode(&CONTROL_MESSAGE, request)?.into();
        let deadline = time::now() + time_limit;
        let (mut retries, mut last) = (RETRY.retries(), None);
        let mut candidates = VecDeque::new();
        let mut is_unknown = false;
        while time::now() < deadline {
            if candidates.is_empty() {
                candidates = self.candidates();
            }
            let outcome = match candidates.pop_front() {
                Some(to) => self.ask(to, request, body.clone(), deadline).await,
                None => Err(Error::new(ErrorKind::Retry, "no node with the control set is known here yet")),
            };
            let error = match outcome {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = match error.kind() {
                ErrorKind::NotPrimary { hint: Some(hint) } if !candidates.contains(&hint) => {
                    candidates.push_front(hint);
                    Duration::from_millis(10)
                }
                ErrorKind::NotPrimary { .. } | ErrorKind::Retry | ErrorKind::Timeout | ErrorKind::Overloaded => {
                    retries.pause()
                }
                ErrorKind::OutcomeUnknown => {
                    is_unknown = true;
                    retries.pause()
                }
                _ => return Err(error),
            };
            last = Some(error);
            time::sleep(pause.min(deadline.saturating_duration_since(time::now()))).await;
        }
        let kind = if is_unknown { ErrorKind::OutcomeUnknown } else { ErrorKind::Timeout };
        let text = format!(
            "the primary of the control set has not answered within {time_limit:?}: see that most of its voters run and reach each other"
        );
        let error = Error::new(kind, text);
        Err(match last {
            Some(last) => error.with_source(last),
            None => error,
        })
    }

    async fn ask(
        &self,
        to: NodeId,
        request: &ControlRequest,
        body: Bytes,
        deadline: time::Instant,
    ) -> Result<ControlAnswer> {
        if to == self.node {
            return self.controller.handle(&Sender::Node(self.node), request).await;
        }
        let left = deadline.saturating_duration_since(time::now()).min(ATTEMPT_TIME_LIMIT);
        let answer = self.endpoint.call(to.into(), Class::Call, CONTROL, body, left).await?;
        decode(&CONTROL_MESSAGE, &answer, || format!("the answer of node {to}"))
    }

    /// The nodes to ask, the likeliest first: the primary that this node's own replica knows of, the voters, then all others that
    /// are known.
    fn candidates(&self) -> VecDeque<NodeId> {
        let own = self.sets.roles(CONTROL_SET).map(|roles| *roles.borrow());
        let members = self.control.get().members(CONTROL_SET);
        let mut candidates = VecDeque::new();
        let likely = own.and_then(|role_state| role_state.primary);
        for node in likely.into_iter().chain(members).chain(self.peers.iter().copied()) {
            if !candidates.contains(&node) {
                candidates.push_back(node);
            }
        }
        candidates
    }
}

impl fmt::Debug for ControlClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlClient").field("node", &self.node).finish_non_exhaustive()
    }
}
