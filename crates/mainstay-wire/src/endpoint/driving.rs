//! A connection from its first frame to its end.

use std::sync::Arc;

use mainstay_core::time::{self, Instant};

use super::shared::EndpointCore;
use crate::channel::Channel;
use crate::class::Lane;
use crate::driver::{Driver, Supervisor};
use crate::handshake::Agreed;
use crate::link::{End, Link};
use crate::policy::Introduction;
use crate::tls::Security;

/// Moves the bytes of a connection until it ends.
pub(super) async fn drive(shared: Arc<EndpointCore>, link: Arc<Link>, channel: Arc<Channel>, agreed: Agreed) {
    let Agreed { stream, peer, windows, certificate, .. } = agreed;
    // Version numbers of frames fit into a byte.
    channel.open(u8::try_from(peer.protocol).unwrap_or(u8::MAX), windows);
    shared.report_skew(&peer);
    let certificate = match &shared.options.security {
        Security::Tls(credentials) => certificate.map(|certificate| (credentials.clone(), certificate)),
        _ => None,
    };
    let supervisor =
        Supervising { shared: shared.clone(), link: link.clone(), channel: channel.clone(), peer: peer.clone() };
    let driver = Driver {
        stream,
        channel: channel.clone(),
        peer: peer.clone(),
        serve: shared.serve.clone(),
        policy: shared.options.policy.clone(),
        timing: shared.options.timing.lane(link.lane),
        granted: shared.options.windows,
        bucket: (link.lane == Lane::Bulk).then(|| shared.bucket.clone()),
        certificate,
        supervisor: Box::new(supervisor),
    };
    shared.count_open(1);
    shared.serve.connected(&peer);
    if shared.is_stopping() {
        channel.say_goodbye();
    }
    let mut connection = Attached { shared, link, channel, peer, begun: time::now(), end: None };
    connection.end = Some(match driver.run().await {
        Ok(()) => End::Orderly,
        // What was under way has been told; the next message need not wait because of it.
        Err(_) if connection.channel.is_ending() => End::Orderly,
        Err(error) => End::Failed(error.report().to_string()),
    });
}

/// What the driver of a connection tells the endpoint.
struct Supervising {
    shared: Arc<EndpointCore>,
    link: Arc<Link>,
    channel: Arc<Channel>,
    peer: Arc<Introduction>,
}

impl Supervisor for Supervising {
    fn complain(&self, what: &str) {
        self.shared.complain(&self.peer.remote, what);
    }

    fn ending(&self) {
        self.shared.replace(&self.link, &self.channel);
    }
}

/// Cleans up after a connection, however its task ends.
struct Attached {
    shared: Arc<EndpointCore>,
    link: Arc<Link>,
    channel: Arc<Channel>,
    peer: Arc<Introduction>,
    begun: Instant,
    end: Option<End>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Self { shared, link, channel, peer, .. } = self;
        let end = self.end.take().unwrap_or_else(|| End::Failed("the task of the connection has ended".to_owned()));
        let cause = match &end {
            End::Orderly => "the connection has come to its end",
            End::Failed(cause) => cause,
        };
        channel.close(cause);
        let has_lasted = self.begun.elapsed() >= shared.options.timing.redial_max;
        let ended = link.ended(channel, &end, has_lasted, time::now());
        shared.count_open(-1);
        shared.forget_session(link.peer);
        // Another one is in use.
        if ended.is_none() && link.current().is_some() {
            return;
        }
        if let End::Failed(cause) = &end
            && !shared.is_stopping()
        {
            shared
                .complain(&peer.remote, &format!("the {} connection to {} has ended: {cause}", link.lane, peer.sender));
        }
        shared.serve.disconnected(peer, cause);
        if let Some(pause) = ended {
            shared.keep(link, pause);
        }
    }
}
