use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time::Duration;
use mainstay_core::{Error, ErrorKind, Result, task};
use mainstay_wire::{Incoming, Introduction, Kind, Sender, Serve};
use parking_lot::RwLock;

use crate::control::{decode, encode};
use crate::control_client::ControlClient;
use crate::controller::Controller;
use crate::formats::CONTROL_MESSAGE;
use crate::kinds::{CONTROL, JOIN, OPERATE, REPLICA};
use crate::message::{ControlAnswer, ControlRequest, JoinAnswer, JoinRequest};
use crate::node_sets::NodeSets;
use crate::transport::unframe;

/// How long a request is passed on for a process that has not said how long it waits.
const FORWARD_TIME_LIMIT: Duration = Duration::from_secs(30);

/// Serves what others send to this node: requests to its replicas, requests to the controller, and the rest by what it was given.
pub(crate) struct ClusterServe {
    scope: task::Scope,
    /// Not there any more once the node has stopped: the endpoint keeps this, and must not keep the replicas.
    sets: RwLock<Option<Arc<dyn NodeSets>>>,
    /// What serves the kinds that are not of this room.
    rest: Arc<dyn Serve>,
    /// Not there until this node follows the control set.
    controlling: RwLock<Option<Controlling>>,
}

/// What answers requests to the controller.
#[derive(Clone)]
pub(crate) struct Controlling {
    pub(crate) controller: Controller,
    pub(crate) client: ControlClient,
}

impl ClusterServe {
    pub(crate) fn new(scope: task::Scope, sets: Arc<dyn NodeSets>, rest: Arc<dyn Serve>) -> Arc<Self> {
        Arc::new(Self { scope, sets: RwLock::new(Some(sets)), rest, controlling: RwLock::new(None) })
    }

    pub(crate) fn attach(&self, controlling: Controlling) {
        *self.controlling.write() = Some(controlling);
    }

    /// Serves nothing of this room any more, and lets go of the replicas.
    pub(crate) fn detach(&self) {
        self.controlling.write().take();
        self.sets.write().take();
    }

    fn serve_replica(&self, incoming: Incoming) {
        let Some(sets) = self.sets.read().clone() else {
            return incoming.answer(Err(Error::new(ErrorKind::Retry, "this node has stopped: retry")));
        };
        let Sender::Node(from) = *incoming.sender() else { return incoming.refuse_kind() };
        match unframe(incoming.body().clone()) {
            Ok((set, request)) => {
                let answer = sets.receive(from, set, request);
                self.scope.within(|| incoming.answer_later(async move { Ok(answer.await) }));
            }
            Err(error) => incoming.answer(Err(error)),
        }
    }

    fn serve_control(&self, incoming: Incoming) {
        let Some(controlling) = self.controlling.read().clone() else {
            return incoming.answer(Err(Error::new(ErrorKind::Retry, "this node has just started: retry")));
        };
        let request = match decode(&CONTROL_MESSAGE, incoming.body(), || "a request to the controller".to_owned()) {
            Ok(request) => request,
            Err(error) => return incoming.answer(Err(error)),
        };
        let sender = incoming.sender().clone();
        let left = incoming.remaining().unwrap_or(FORWARD_TIME_LIMIT);
        let kind = incoming.kind();
        self.scope.within(|| {
            incoming.answer_later(async move {
                let answer = controlling.handle(&sender, kind, request, left).await?;
                Ok(Bytes::from(encode(&CONTROL_MESSAGE, &answer)?))
            });
        });
    }
}

impl Controlling {
    /// Answers a request. One of a node is answered here or redirected; one of a process that does not know the nodes is passed on.
    async fn handle(
        &self,
        sender: &Sender,
        kind: Kind,
        request: ControlRequest,
        left: Duration,
    ) -> Result<ControlAnswer> {
        let request = match (kind, request) {
            (JOIN, ControlRequest::Join(request)) => {
                // What it says of its own certificate counts for nothing.
                let certified = match sender {
                    Sender::Node(node) => Some(*node),
                    _ => None,
                };
                return self.join(JoinRequest { certified, ..request }, left).await;
            }
            (JOIN, _) => return Err(Error::invalid(format!("{sender} may join, and ask for nothing else"))),
            (_, request) => request,
        };
        let answer = self.controller.handle(sender, &request).await;
        match answer {
            // An operator does not know where the others are.
            Err(error) if kind == OPERATE && matches!(error.kind(), ErrorKind::NotPrimary { .. }) => {
                self.client.request(&request, left).await
            }
            answer => answer,
        }
    }

    async fn join(&self, request: JoinRequest, left: Duration) -> Result<ControlAnswer> {
        let key = request.public_key.is_some();
        let forwarded = ControlRequest::Join(request);
        let answer = self.client.request(&forwarded, left).await?;
        match (answer, forwarded) {
            // The primary has no authority, and this node may have one.
            (ControlAnswer::Joined(joined), ControlRequest::Join(request)) if key && joined.certificate.is_none() => {
                let certificate = self.controller.certify(joined.node, &request)?;
                if certificate.is_none() {
                    return Err(Error::invalid(
                        "neither this node nor the primary of the control set has the key of the authority, so that none can issue a \
                         certificate: ask a node that has it",
                    ));
                }
                Ok(ControlAnswer::Joined(JoinAnswer { certificate, ..joined }))
            }
            (answer, _) => Ok(answer),
        }
    }
}

impl Serve for ClusterServe {
    fn receive(&self, incoming: Incoming) {
        match incoming.kind() {
            REPLICA => self.serve_replica(incoming),
            CONTROL | OPERATE | JOIN => self.serve_control(incoming),
            _ => self.rest.receive(incoming),
        }
    }

    fn connected(&self, peer: &Introduction) {
        self.rest.connected(peer);
    }

    fn disconnected(&self, peer: &Introduction, cause: &str) {
        self.rest.disconnected(peer, cause);
    }
}
