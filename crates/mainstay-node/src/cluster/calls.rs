use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use mainstay_cluster::control::ControlWatch;
use mainstay_cluster::{ClusterNode, RoutingTable};
use mainstay_core::time::Duration;
use mainstay_core::{NodeId, Result, SetId};
use mainstay_runtime::{Address, Redirect, RemoteCalls, RemoteRoute};
use mainstay_wire::{Class, Endpoint};

use super::kinds::CALL;

/// Sends calls to other nodes over the wire, and finds the node by the routing table of the cluster.
pub(crate) struct ClusterCalls {
    endpoint: Endpoint,
    routes: RoutingTable,
    control: ControlWatch,
}

impl ClusterCalls {
    pub(crate) fn new(cluster: &ClusterNode) -> Arc<Self> {
        let (endpoint, routes) = (cluster.endpoint().clone(), cluster.routes().clone());
        Arc::new(Self { endpoint, routes, control: cluster.control().clone() })
    }

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
        let endpoint = self.endpoint.clone();
        Box::pin(async move { endpoint.call(to.into(), Class::Call, CALL, request, time_limit).await })
    }

    fn route(&self, address: &Address) -> RemoteRoute {
        let Some(set) = self.set_of(address) else { return RemoteRoute::default() };
        let route = self.routes.route(set);
        RemoteRoute { node: route.node, epoch: route.epoch }
    }

    fn redirect(&self, address: &Address, redirect: Redirect) {
        let Some(set) = self.set_of(address) else { return };
        match redirect {
            Redirect::NotPrimary { from, hint } => self.routes.redirected(set, from, hint),
            Redirect::Unreachable { node } => self.routes.unreachable(set, node),
            Redirect::Answered { node, epoch } => self.routes.confirmed(set, node, epoch),
            _ => {}
        }
    }
}
