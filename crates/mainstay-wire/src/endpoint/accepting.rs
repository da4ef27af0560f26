//! Connections that others make.

use std::sync::Arc;

use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, Result};

use super::driving::drive;
use super::shared::EndpointCore;
use crate::channel::Channel;
use crate::handshake::{self, Agreed};
use crate::hello::{Refusal, RefusalCode};
use crate::link::{End, Link, Mark};
use crate::party::{Peer, Sender};
use crate::policy::Introduction;
use crate::stream::{Connection, Listen};

/// Accepts connections until the endpoint stops.
pub(super) async fn accept_all(shared: Arc<EndpointCore>, mut listen: Box<dyn Listen>) {
    loop {
        let connection = match listen.accept().await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::error!(error = %error.report(), "no more connections are accepted");
                return;
            }
        };
        let Some(pending) = shared.doorway.enter(&connection.remote) else {
            shared.complain(&connection.remote, "a connection was dropped: too many have not said who they are");
            continue;
        };
        let accepting = accept(shared.clone(), connection, pending);
        shared.scope.spawn(accepting);
    }
}

async fn accept(shared: Arc<EndpointCore>, connection: Connection, pending: super::doorway::Pending) {
    let (remote, limit) = (connection.remote.clone(), shared.options.timing.handshake_max);
    let agreed = time::timeout(limit, agree(&shared, connection)).await;
    drop(pending);
    match agreed
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Retry, format!("it has not said hello within {limit:?}"))))
    {
        Ok(Some((link, channel, agreed))) => drive(shared, link, channel, agreed).await,
        Ok(None) => {}
        Err(error) => shared.complain(&remote, &format!("a connection was dropped: {}", error.report())),
    }
}

/// Finds out who it is, and answers. `None` if it is refused for the sake of another connection.
async fn agree(
    shared: &Arc<EndpointCore>,
    connection: Connection,
) -> Result<Option<(Arc<Link>, Arc<Channel>, Agreed)>> {
    let mut met = handshake::meet(&shared.options, connection, false).await?;
    let heard = handshake::hear_hello(&shared.options, &mut met).await?;
    let decided = heard.and_then(|(introduction, hello)| {
        let mark = Mark { boot: hello.boot, sequence: hello.sequence };
        let attached = attach(shared, introduction, mark)?;
        Ok((attached, hello))
    });
    match decided {
        Ok((Attached { link, introduction, channel }, hello)) => {
            let guard = Unwelcomed { link, channel: Some(channel), shared };
            let agreed = handshake::welcome(met, introduction, &hello, &shared.own_hello(hello.lane)).await?;
            let (link, channel) = guard.welcomed();
            Ok(channel.map(|channel| (link, channel, agreed)))
        }
        Err(refusal) => {
            let remote = met.remote().to_owned();
            handshake::refuse(met, &refusal).await;
            match refusal.code {
                RefusalCode::Duplicate => Ok(None),
                _ => Err(Error::new(ErrorKind::Invalid, format!("{remote} was refused: {}", refusal.text))),
            }
        }
    }
}

/// A connection that was made that of its peer.
struct Attached {
    link: Arc<Link>,
    introduction: Arc<Introduction>,
    channel: Arc<Channel>,
}

/// Makes a connection that of its peer, from here on.
fn attach(shared: &Arc<EndpointCore>, introduction: Introduction, mark: Mark) -> Result<Attached, Refusal> {
    if shared.is_stopping() {
        return Err(Refusal::new(RefusalCode::Stopping, "the node is being stopped"));
    }
    let (peer, lane) = (introduction.peer, introduction.lane);
    let known = shared.known_link(peer, lane);
    if known.is_none() && matches!(peer, Peer::Session(_)) && shared.sessions() >= shared.options.sessions_max {
        let text = format!(
            "{} processes are connected, and no more are allowed: try another node",
            shared.options.sessions_max
        );
        return Err(Refusal::new(RefusalCode::Full, text));
    }
    // Nobody else can use the number of a session that is connected.
    let others = crate::class::Lane::ALL.into_iter().filter_map(|lane| shared.known_link(peer, lane)?.current());
    for (_, other) in others {
        if other.sender != introduction.sender {
            return Err(Refusal::new(RefusalCode::Identity, format!("{peer} is that of {}", other.sender)));
        }
    }
    let link = known.unwrap_or_else(|| shared.make_link(peer, lane));
    let is_ours_first = match (&shared.options.sender, peer) {
        (Sender::Node(own), Peer::Node(node)) => *own < node,
        _ => false,
    };
    let introduction = Arc::new(introduction);
    let channel = link.accept(mark, is_ours_first, &introduction, || shared.channel(peer, lane))?;
    Ok(Attached { link, introduction, channel })
}

/// A connection that counts here and whose other end does not know it yet.
struct Unwelcomed<'s> {
    link: Arc<Link>,
    channel: Option<Arc<Channel>>,
    shared: &'s Arc<EndpointCore>,
}

impl Unwelcomed<'_> {
    fn welcomed(mut self) -> (Arc<Link>, Option<Arc<Channel>>) {
        (self.link.clone(), self.channel.take())
    }
}

impl Drop for Unwelcomed<'_> {
    fn drop(&mut self) {
        let Some(channel) = self.channel.take() else { return };
        let cause = "the connection ended before the welcome was sent";
        let ended = self.link.ended(&channel, &End::Failed(cause.to_owned()), false, time::now());
        channel.close(cause);
        self.shared.forget_session(self.link.peer);
        if let Some(pause) = ended {
            self.shared.keep(&self.link, pause);
        }
    }
}
