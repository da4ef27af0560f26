use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use mainstay_cluster::control::ControlWatch;
use mainstay_cluster::{ClusterNode, RoutingTable};
use mainstay_core::time::Duration;
use mainstay_core::{Error, NodeId, Result, SetId};
use mainstay_runtime::{Address, Redirect, RemoteCalls, RemoteRoute};
use mainstay_wire::{Class, Endpoint};
use parking_lot::RwLock;

use super::kinds::CALL;

/// Sends calls to other nodes over the wire, and finds the node by the routing table of the cluster.
pub(crate) struct ClusterCalls {
    /// `None` once the node has stopped: proxies outlive it, and must not keep its data folder.
    connected: RwLock<Option<Connected>>,
}

#[derive(Clone)]
struct Connected {
    endpoint: Endpoint,
    routes: RoutingTable,
    control: ControlWatch,
}

impl ClusterCalls {
    pub(crate) fn new(cluster: &ClusterNode) -> Arc<Self> {
        let (endpoint, routes) = (cluster.endpoint().clone(), cluster.routes().clone());
        let connected = Connected { endpoint, routes, control: cluster.control().clone() };
        Arc::new(Self { connected: RwLock::new(Some(connected)) })
    }

    /// Sends nothing any more, and lets go of the node.
    pub(crate) fn disconnect(&self) {
        self.connected.write().take();
    }
}

impl Connected {
    /// The set that holds a partition; `None` if this node has not heard of the service yet.
    fn set_of(&self, address: &Address) -> Option<SetId> {
        let state = self.control.get();
        let placed = state.services.get(&*address.service)?.partitions.get(address.index as usize)?;
        (placed.id == address.partition).then_some(placed.set)
    }
}

impl fmt::Debug for ClusterCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterCalls").finish_non_exhaustive()
    }
}

impl RemoteCalls for ClusterCalls {
    fn call(&self, to: NodeId, request: Bytes, time_limit: Duration) -> BoxFuture<'static, Result<Bytes>> {
        let connected = self.connected.read().clone();
        Box::pin(async move {
            let Some(Connected { endpoint, .. }) = connected else {
                return Err(Error::fatal("the node has stopped, and with it all calls from it: start the node again"));
            };
            endpoint.call(to.into(), Class::Call, CALL, request, time_limit).await
        })
    }

    fn route(&self, address: &Address) -> RemoteRoute {
        let connected = self.connected.read();
        let route = connected.as_ref().and_then(|connected| Some(connected.routes.route(connected.set_of(address)?)));
        route.map(|route| RemoteRoute { node: route.node, epoch: route.epoch }).unwrap_or_default()
    }

    fn redirect(&self, address: &Address, redirect: Redirect) {
        let connected = self.connected.read();
        let Some((routes, set)) =
            connected.as_ref().and_then(|connected| Some((&connected.routes, connected.set_of(address)?)))
        else {
            return;
        };
        match redirect {
            Redirect::NotPrimary { from, hint } => routes.redirected(set, from, hint),
            Redirect::Unreachable { node } => routes.unreachable(set, node),
            Redirect::Answered { node, epoch } => routes.confirmed(set, node, epoch),
            _ => {}
        }
    }
}
