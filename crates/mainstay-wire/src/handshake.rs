//! The beginning of a connection: TLS where it is in use, then a hello each way.

use std::sync::Arc;

use mainstay_core::time::wall;
use mainstay_core::{ClusterId, Error, ErrorKind, NodeId, OrError as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::class::{Class, Lane};
use crate::frame::{PROTOCOL_MAX, PROTOCOL_MIN};
use crate::hello::{Hello, HelloAnswer, PREFIX_BYTES, Refusal, RefusalCode, body_bytes};
use crate::link::Mark;
use crate::options::EndpointOptions;
use crate::party::{Peer, Sender, SessionId};
use crate::policy::{self, Introduction};
use crate::stream::{Connection, Stream};
use crate::tls::{self, Identity, PeerCertificate, Secured, Security};
use crate::window::Window;

/// Wall clocks that differ by more are reported.
pub(crate) const SKEW_REPORTED_MS: i64 = 500;

/// Nodes whose wall clocks differ by more do not work together.
pub(crate) const SKEW_MAX_MS: i64 = 5_000;

/// A stream whose other end has said who it is.
pub(crate) struct Agreed {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) peer: Arc<Introduction>,
    pub(crate) mark: Mark,
    pub(crate) windows: [Window; Class::COUNT],
    pub(crate) certificate: Option<PeerCertificate>,
}

/// A stream that was made or accepted, with TLS where it is in use.
pub(crate) struct Met {
    stream: Box<dyn Stream>,
    remote: String,
    /// Who TLS says that it is; without TLS, whoever it says.
    identity: Option<Option<Identity>>,
    certificate: Option<PeerCertificate>,
}

/// Makes a dialed stream secure.
pub(crate) async fn meet(options: &EndpointOptions, connection: Connection, is_dialed: bool) -> Result<Met> {
    let Connection { stream, remote, is_loopback } = connection;
    options.security.check(&remote, is_loopback)?;
    let Security::Tls(credentials) = &options.security else {
        return Ok(Met { stream, remote, identity: None, certificate: None });
    };
    let Secured { stream, peer } = match is_dialed {
        true => tls::connect(credentials, stream).await?,
        false => tls::accept(credentials, stream).await?,
    };
    let (identity, certificate) = peer.unzip();
    Ok(Met { stream, remote, identity: Some(identity), certificate })
}

/// Says hello on a dialed stream, and hears who is there.
pub(crate) async fn say_hello(
    options: &EndpointOptions,
    mut met: Met,
    hello: Hello,
    expected: Option<NodeId>,
) -> Result<std::result::Result<Agreed, Refusal>> {
    met.stream.write_all(&hello.encode()).await.or_error(ErrorKind::Retry, "the hello could not be sent")?;
    met.stream.flush().await.or_error(ErrorKind::Retry, "the hello could not be sent")?;
    let (prefix, body) = read_hello(&mut met.stream).await?;
    let welcome = match HelloAnswer::decode(&prefix, &body)? {
        HelloAnswer::Refused(refusal) => return Ok(Err(refusal)),
        HelloAnswer::Welcome(welcome) => *welcome,
    };
    let introduction = introduce(options, &met, &welcome).map_err(|refusal| Error::invalid(refusal.text))?;
    let Peer::Node(node) = introduction.peer else {
        return Err(Error::invalid(format!(
            "{} is {}, and only nodes are connected to",
            met.remote, introduction.sender
        )));
    };
    if expected.is_some_and(|expected| expected != node) {
        return Err(Error::invalid(format!("{} is node {node}: its address belongs to someone else now", met.remote)));
    }
    if welcome.lane != hello.lane {
        return Err(Error::corrupt("the welcome is for another connection"));
    }
    // Who may not connect here is not connected to either: what it would answer counts as little as what it would send.
    options.policy.admit(&introduction)?;
    Ok(Ok(met.agreed(introduction, &welcome)))
}

/// Hears the hello of an accepted stream. It is not answered yet.
pub(crate) async fn hear_hello(
    options: &EndpointOptions,
    met: &mut Met,
) -> Result<std::result::Result<(Introduction, Hello), Refusal>> {
    let (prefix, body) = read_hello(&mut met.stream).await?;
    let hello = Hello::decode(&prefix, &body)?;
    let checked = introduce(options, met, &hello).and_then(|introduction| {
        let is_node = matches!(introduction.sender, Sender::Node(_));
        if hello.lane == Lane::Heartbeat && !is_node {
            return Err(Refusal::new(RefusalCode::Policy, "the heartbeat connection is for nodes"));
        }
        options.policy.admit(&introduction).map_err(|error| Refusal::new(RefusalCode::Policy, error.to_string()))?;
        Ok(introduction)
    });
    Ok(checked.map(|introduction| (introduction, hello)))
}

/// Answers a hello with ours.
pub(crate) async fn welcome(
    mut met: Met,
    introduction: Arc<Introduction>,
    hello: &Hello,
    own: &Hello,
) -> Result<Agreed> {
    met.stream.write_all(&own.encode()).await.or_error(ErrorKind::Retry, "the welcome could not be sent")?;
    met.stream.flush().await.or_error(ErrorKind::Retry, "the welcome could not be sent")?;
    let mut agreed = met.agreed(introduction.as_ref().clone(), hello);
    agreed.peer = introduction;
    Ok(agreed)
}

/// Answers a hello with a refusal.
pub(crate) async fn refuse(mut met: Met, refusal: &Refusal) {
    // Whoever does not hear it finds the connection closed.
    if met.stream.write_all(&refusal.encode()).await.is_ok() && met.stream.flush().await.is_ok() {
        let _ = met.stream.shutdown().await;
    }
}

/// What this process says of itself.
pub(crate) fn own_hello(options: &EndpointOptions, lane: Lane, session: SessionId, sequence: u64) -> Hello {
    let certified = match &options.security {
        Security::Tls(credentials) => credentials.identity().map(|identity| identity.cluster),
        _ => None,
    };
    Hello {
        protocol_min: PROTOCOL_MIN,
        protocol_max: PROTOCOL_MAX,
        lane,
        sender: options.sender.clone(),
        cluster: options.cluster.or(certified),
        session,
        boot: options.boot,
        sequence,
        features: options.features,
        wall: wall(),
        windows: options.windows,
    }
}

impl Met {
    fn agreed(self, introduction: Introduction, hello: &Hello) -> Agreed {
        Agreed {
            stream: self.stream,
            peer: Arc::new(introduction),
            mark: Mark { boot: hello.boot, sequence: hello.sequence },
            windows: hello.windows,
            certificate: self.certificate,
        }
    }

    pub(crate) fn remote(&self) -> &str {
        &self.remote
    }
}

async fn read_hello(stream: &mut Box<dyn Stream>) -> Result<([u8; PREFIX_BYTES], Vec<u8>)> {
    let mut prefix = [0; PREFIX_BYTES];
    stream.read_exact(&mut prefix).await.map_err(no_hello)?;
    let mut body = vec![0; body_bytes(&prefix)?];
    stream.read_exact(&mut body).await.map_err(no_hello)?;
    Ok((prefix, body))
}

/// A certificate is refused after the other end has finished its part of TLS, so that the alert is what it reads first.
fn no_hello(error: std::io::Error) -> Error {
    match tls::refusal_in(&error) {
        Some(refused) => refused,
        None => Error::new(ErrorKind::Retry, "the connection ended before a hello").with_source(error),
    }
}

/// Is this who it says it is, and does it belong here?
fn introduce(options: &EndpointOptions, met: &Met, hello: &Hello) -> std::result::Result<Introduction, Refusal> {
    let sender = &hello.sender;
    match &met.identity {
        None => {}
        Some(Some(identity)) if identity.sender == *sender && hello.cluster == Some(identity.cluster) => {}
        Some(None) if *sender == Sender::Joining => {}
        Some(Some(identity)) => {
            let text = format!("a peer says that it is {sender}, and its certificate says {identity}");
            return Err(Refusal::new(RefusalCode::Identity, text));
        }
        Some(None) => return Err(Refusal::new(RefusalCode::Identity, format!("{sender} has shown no certificate"))),
    }
    check_cluster(options.cluster, hello.cluster, sender)?;
    if let Sender::Node(node) = sender {
        if *sender == options.sender {
            return Err(Refusal::new(
                RefusalCode::Identity,
                format!("this is node {node} itself: two processes must not be one node"),
            ));
        }
        if options.removed.borrow().contains(node) {
            return Err(Refusal::new(RefusalCode::Removed, policy::removed(*node).to_string()));
        }
    }
    let protocol = PROTOCOL_MAX.min(hello.protocol_max);
    if protocol < PROTOCOL_MIN.max(hello.protocol_min) {
        let (min, max) = (hello.protocol_min, hello.protocol_max);
        let text = format!(
            "{sender} speaks versions {min} to {max} of the protocol, and this build {PROTOCOL_MIN} to {PROTOCOL_MAX}: upgrade one version at a time"
        );
        return Err(Refusal::new(RefusalCode::Version, text));
    }
    let (theirs, ours) = (hello.wall.as_millis(), wall().as_millis());
    let clock_ahead_ms =
        i64::try_from(i128::from(theirs) - i128::from(ours)).unwrap_or(if theirs > ours { i64::MAX } else { i64::MIN });
    let are_nodes = matches!((sender, &options.sender), (Sender::Node(_), Sender::Node(_)));
    if are_nodes && clock_ahead_ms.unsigned_abs() > SKEW_MAX_MS.unsigned_abs() {
        let text = format!(
            "the wall clock of {sender} is {clock_ahead_ms} ms ahead, and {SKEW_MAX_MS} ms are allowed: set the clocks"
        );
        return Err(Refusal::new(RefusalCode::Clock, text));
    }
    let peer = match sender {
        Sender::Node(node) => Peer::Node(*node),
        _ => Peer::Session(hello.session),
    };
    Ok(Introduction {
        sender: sender.clone(),
        peer,
        cluster: hello.cluster,
        boot: hello.boot,
        session: hello.session,
        features: hello.features,
        protocol,
        clock_ahead_ms,
        lane: hello.lane,
        remote: met.remote.clone(),
    })
}

/// A node is of this cluster; who is none may not know one yet.
fn check_cluster(
    own: Option<ClusterId>,
    theirs: Option<ClusterId>,
    sender: &Sender,
) -> std::result::Result<(), Refusal> {
    match (own, theirs) {
        (Some(own), Some(theirs)) if own != theirs => {
            Err(Refusal::new(RefusalCode::Cluster, format!("{sender} is of cluster {theirs}, and this is {own}")))
        }
        (_, None) if matches!(sender, Sender::Node(_)) => {
            Err(Refusal::new(RefusalCode::Cluster, format!("{sender} does not say of which cluster it is")))
        }
        _ => Ok(()),
    }
}
