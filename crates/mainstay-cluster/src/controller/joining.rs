use mainstay_core::time::WallTime;
use mainstay_core::{Error, ErrorKind, Level, NodeId, Result, SetId};
use sha2::{Digest as _, Sha256};

use crate::control::ControlState;
use crate::control::record::{NodeRecord, NodeState, PEER_ADDRESS};
use crate::message::{Announcement, JoinAnswer, JoinRequest, NodeDescription};
use crate::policy;

use super::founding::described;
use super::incarnation::replica_lost;

/// The most nodes that a cluster has ever had. A record of each is kept, so that none comes back that was removed.
const NODES_MAX: usize = 10_000;

/// The most addresses of a node, and the longest texts in what it says of itself.
const ADDRESSES_MAX: usize = 16;
const TEXT_BYTES_MAX: usize = 512;
const TYPES_MAX: usize = 10_000;

/// Makes a process a node, or says again which one it is.
pub(super) fn join(
    state: &mut ControlState,
    request: &JoinRequest,
    needs_token: bool,
    now: WallTime,
) -> Result<JoinAnswer> {
    check_description(&request.description, true)?;
    if needs_token && request.certified.is_none() {
        use_token(state, request, now)?;
    }
    let known = state.nodes.values().find(|node| node.join_request == request.request);
    let node = match known.map(|node| (node.id, node.state)) {
        Some((id, NodeState::Removed)) => return Err(policy::removed(id)),
        Some((id, _)) => id,
        None => new_node(state, request)?,
    };
    let peers = state.up().filter(|peer| peer.id != node);
    let peers = peers.filter_map(|peer| Some((peer.id, peer.addresses.get(PEER_ADDRESS)?.clone()))).collect();
    // It is there: it was found or made.
    let control_replica = state.nodes.get(&node).map(|node| node.control_replica).unwrap_or_default();
    let cluster = state.cluster()?;
    Ok(JoinAnswer { cluster: cluster.id, node, control_replica, peers, profile: cluster.profile, certificate: None })
}

fn new_node(state: &mut ControlState, request: &JoinRequest) -> Result<NodeId> {
    if state.nodes.len() >= NODES_MAX {
        let text = format!("the cluster has had {NODES_MAX} nodes, and takes no more");
        return Err(Error::new(ErrorKind::TooLarge, text));
    }
    let control_replica = state.new_replica()?;
    let cluster = state.cluster_mut()?;
    let id = request.certified.unwrap_or(NodeId(cluster.next_node));
    let next = id.0.checked_add(1).ok_or_else(|| Error::fatal("there is no id left for a node"))?;
    cluster.next_node = cluster.next_node.max(next);
    if state.nodes.contains_key(&id) {
        return Err(Error::invalid(format!(
            "the certificate is that of node {id}, which has joined already with another folder: issue one for another node"
        )));
    }
    let record = described(id, NodeState::Joining, control_replica, &request.description);
    state.nodes.insert(id, NodeRecord { join_request: request.request, ..record });
    Ok(id)
}

/// Uses up the token that a request comes with. The same request may use it again.
fn use_token(state: &mut ControlState, request: &JoinRequest, now: WallTime) -> Result<()> {
    let again = "make a new one with `mainstay node token`";
    let secret = request.secret.ok_or_else(|| {
        Error::invalid(
            "a node joins this cluster with a token or with a certificate: make one with `mainstay node token`",
        )
    })?;
    let hash: [u8; 32] = Sha256::digest(secret).into();
    let token = state.tokens.get_mut(&hash);
    let token = token.ok_or_else(|| Error::invalid(format!("the join token is not known here: {again}")))?;
    if token.used_by == Some(request.request) {
        return Ok(());
    }
    if token.used_by.is_some() {
        return Err(Error::invalid(format!("the join token was used by another node: {again}")));
    }
    if token.expires <= now {
        return Err(Error::invalid(format!("the join token has expired at {}: {again}", token.expires)));
    }
    token.used_by = Some(request.request);
    Ok(())
}

/// Notes that a node has started.
pub(super) fn announce(state: &mut ControlState, announcement: &Announcement) -> Result<()> {
    let Announcement { node, boot, session, description } = announcement;
    check_description(description, false)?;
    let record = state.nodes.get(node).ok_or_else(|| {
        Error::invalid(format!(
            "node {node} is not known in this cluster: start it with an empty data folder, and it joins"
        ))
    })?;
    if record.state == NodeState::Removed {
        return Err(policy::removed(*node));
    }
    let is_same_start = record.boot == *boot && record.session == *session;
    if *boot <= record.boot && !is_same_start {
        return Err(policy::old_copy(*node, record.boot, *boot));
    }
    let NodeRecord { control_replica, join_request, boot: boot_before, .. } = *record;
    let updated = NodeRecord {
        boot: *boot,
        session: *session,
        join_request,
        ..described(*node, NodeState::Up, control_replica, description)
    };
    state.nodes.insert(*node, updated);
    if !is_same_start && boot_before > 0 {
        let volatile: Vec<SetId> = state.sets.keys().copied().filter(|set| set.level == Level::Volatile).collect();
        for set in volatile {
            replica_lost(state, set, *node)?;
        }
    }
    Ok(())
}

fn check_description(description: &NodeDescription, is_joining: bool) -> Result<()> {
    let NodeDescription { addresses, fault_domain, program, types, .. } = description;
    let address = addresses.get(PEER_ADDRESS).map(|address| address.parse::<mainstay_wire::Address>()).transpose()?;
    match address {
        Some(address) if address.port() == 0 => {
            return Err(Error::invalid(format!("{address} cannot be reached: say on which port the node listens")));
        }
        None if is_joining => {
            return Err(Error::invalid(format!(
                "a node says where others reach it, by the address with the name {PEER_ADDRESS:?}"
            )));
        }
        // A node alone listens to nobody.
        _ => {}
    }
    let texts =
        addresses.iter().flat_map(|(name, address)| [name, address]).chain([fault_domain, program]).chain(types);
    if addresses.len() > ADDRESSES_MAX || types.len() > TYPES_MAX || texts.into_iter().any(|t| t.len() > TEXT_BYTES_MAX)
    {
        let text = format!(
            "a node has at most {ADDRESSES_MAX} addresses and {TYPES_MAX} types, and no text of more than {TEXT_BYTES_MAX} bytes"
        );
        return Err(Error::new(ErrorKind::TooLarge, text));
    }
    Ok(())
}
