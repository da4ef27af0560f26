//! Connections that are made here.

use std::sync::Arc;

use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, NodeId, Result};

use super::driving::drive;
use super::shared::EndpointCore;
use crate::address::Address;
use crate::channel::Channel;
use crate::class::Lane;
use crate::handshake::{self, Agreed};
use crate::hello::{Refusal, RefusalCode};
use crate::link::{End, Link};
use crate::party::Peer;

/// What a dial has come to.
enum Dialed {
    Agreed(Box<Agreed>),
    /// The peer dials too, and its dial counts: it will be here soon.
    PeerDials,
    /// Another connection was made meanwhile.
    Superseded,
}

/// Dials the peer of a link until there is a connection, or until a dial has failed, and then moves its bytes.
pub(super) async fn dial(shared: Arc<EndpointCore>, link: Arc<Link>, channel: Arc<Channel>) {
    loop {
        let limit = shared.options.timing.handshake_max;
        let dialed = time::timeout(limit, dial_once(&shared, &link, &channel)).await;
        let failure = match dialed {
            Ok(Ok(Dialed::Agreed(agreed))) => {
                if link.dialed(&channel, agreed.mark, &agreed.peer) {
                    drive(shared, link, channel, *agreed).await;
                }
                return;
            }
            Ok(Ok(Dialed::Superseded)) => return,
            Ok(Ok(Dialed::PeerDials)) => match link.retreat(&channel) {
                Some(pause) => {
                    time::sleep(pause).await;
                    if link.is_dialing(&channel) {
                        continue;
                    }
                    return;
                }
                None => return,
            },
            Ok(Err(error)) => error,
            Err(_) => Error::new(ErrorKind::Retry, format!("no connection within {limit:?}")),
        };
        let cause = failure.report().to_string();
        let end = End::Failed(cause.clone());
        // Not while another one may still take the channel over.
        if let Some(pause) = link.ended(&channel, &end, false, time::now()) {
            channel.close(&cause);
            if !shared.is_stopping() {
                let peer = link.peer.to_string();
                shared.complain(&peer, &format!("{peer} is not reached by its {} connection: {cause}", link.lane));
            }
            shared.keep(&link, pause);
        }
        return;
    }
}

async fn dial_once(shared: &EndpointCore, link: &Link, channel: &Arc<Channel>) -> Result<Dialed> {
    let Peer::Node(node) = link.peer else { return Err(Error::invalid("only nodes are dialed")) };
    let address = shared.address(node)?;
    let connection = shared.options.dial.dial(&address).await?;
    let met = handshake::meet(&shared.options, connection, true).await?;
    // Its number is drawn first: a connection that is accepted from here on is answered with a higher one, by which the peer sees
    // that this hello did not know of it.
    let hello = shared.own_hello(link.lane);
    if !link.introduce(channel) {
        return Ok(Dialed::Superseded);
    }
    match handshake::say_hello(&shared.options, met, hello, Some(node)).await? {
        Ok(agreed) => Ok(Dialed::Agreed(Box::new(agreed))),
        Err(Refusal { code: RefusalCode::Duplicate, .. }) => Ok(Dialed::PeerDials),
        Err(refusal) => Err(refused(&address, refusal)),
    }
}

/// Connects to whoever is at an address.
pub(super) async fn connect(shared: Arc<EndpointCore>, address: Address) -> Result<NodeId> {
    let limit = shared.options.timing.handshake_max;
    let agreed = async {
        let connection = shared.options.dial.dial(&address).await?;
        let met = handshake::meet(&shared.options, connection, true).await?;
        let hello = shared.own_hello(Lane::Data);
        handshake::say_hello(&shared.options, met, hello, None).await?.map_err(|refusal| refused(&address, refusal))
    };
    let agreed = time::timeout(limit, agreed).await;
    let agreed = agreed.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Retry, format!("{address} has not answered within {limit:?}")))
    })?;
    let Peer::Node(node) = agreed.peer.peer else { return Err(Error::invalid("only nodes are connected to")) };
    shared.note_address(node, &address);
    let link = shared.make_link(agreed.peer.peer, Lane::Data);
    let channel = link.adopt(agreed.mark, &agreed.peer, || shared.channel(link.peer, link.lane));
    let driving = drive(shared.clone(), link, channel, agreed);
    shared.scope.spawn(driving);
    for lane in Lane::ALL {
        shared.keep(&shared.make_link(Peer::Node(node), lane), std::time::Duration::ZERO);
    }
    Ok(node)
}

/// What a refusal means for who has dialed.
fn refused(address: &Address, refusal: Refusal) -> Error {
    let kind = match refusal.code {
        RefusalCode::Duplicate | RefusalCode::Full | RefusalCode::Stopping => ErrorKind::Retry,
        _ => ErrorKind::Invalid,
    };
    Error::new(kind, format!("{address} has refused the connection: {}", refusal.text))
}
