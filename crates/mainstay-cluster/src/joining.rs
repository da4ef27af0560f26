//! A process asks to become a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Backoff, Error, ErrorKind, NodeId, Result};
use mainstay_wire::tls::{Credentials, KeyPair, Security};
use mainstay_wire::{Address, Class, Endpoint, EndpointOptions, Incoming, Sender, Serve};

use crate::control::{decode, encode};
use crate::formats::CONTROL_MESSAGE;
use crate::kinds::JOIN;
use crate::message::{ControlAnswer, ControlRequest, JoinAnswer, JoinRequest};
use crate::node_files::NodeCredentials;
use crate::options::ClusterOptions;
use crate::peers_file::FolderMembership;

/// The pauses between rounds over all seeds.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// How long one seed is waited for. It may have to find the primary of the control set first.
const ATTEMPT_TIME_LIMIT: Duration = Duration::from_secs(10);

/// What joining has brought.
pub(crate) struct Joined {
    pub(crate) membership: FolderMembership,
    pub(crate) peers: BTreeMap<NodeId, String>,
    pub(crate) credentials: Option<NodeCredentials>,
}

/// A process that joins serves nothing.
struct Nothing;

impl Serve for Nothing {
    fn receive(&self, incoming: Incoming) {
        incoming.refuse_kind();
    }
}

/// Asks the seeds, one after the other and again, until one has an answer or the time is over.
pub(crate) async fn join(options: &ClusterOptions, join_request: u128) -> Result<Joined> {
    let of_token = options.token.iter().flat_map(|token| token.seeds()).filter(|seed| !options.seeds.contains(seed));
    let seeds: Vec<Address> = options.seeds.iter().chain(of_token).cloned().collect();
    let key = match &options.token {
        Some(token) => {
            token.check_expiry(time::wall())?;
            Some(KeyPair::generate()?)
        }
        None => None,
    };
    let request = ControlRequest::Join(JoinRequest {
        request: join_request,
        description: options.description(),
        secret: options.token.as_ref().map(|token| token.secret().to_bytes()),
        public_key: key.as_ref().map(|key| key.public().to_bytes().to_vec()),
        certified: None,
    });
    let endpoint = endpoint(options)?;
    let answer = ask_all(&endpoint, &seeds, &request, options.join_time_limit).await;
    endpoint.stop(Duration::ZERO).await;
    let JoinAnswer { cluster, node, control_replica, peers, profile, certificate } = answer?;
    let credentials = match (key, certificate) {
        (Some(key), Some(certificate)) => Some(NodeCredentials {
            chain_pem: certificate.chain_pem,
            key_pem: key.secret_pem(),
            authority_pem: certificate.authority_pem,
        }),
        _ => None,
    };
    tracing::info!(%cluster, %node, "this folder has joined a cluster");
    let membership = FolderMembership { cluster, node, control_replica, is_founder: false, profile };
    Ok(Joined { membership, peers, credentials })
}

/// An endpoint to ask with: as the node that a certificate names, or as a process without one.
fn endpoint(options: &ClusterOptions) -> Result<Endpoint> {
    let identity = match &options.security {
        Security::Tls(credentials) => credentials.identity(),
        Security::LoopbackOnly | Security::Off => None,
    };
    let (sender, cluster) = match identity {
        Some(identity) => (identity.sender, Some(identity.cluster)),
        None => (Sender::Joining, options.token.as_ref().map(|token| token.cluster())),
    };
    let security = match (&options.security, &options.token) {
        (Security::LoopbackOnly, Some(token)) => Security::Tls(Credentials::joining(token.authority())),
        (given, _) => given.clone(),
    };
    let options = EndpointOptions { security, dial: options.dial.clone(), ..EndpointOptions::new(sender, cluster) };
    Endpoint::start(options, Arc::new(Nothing))
}

async fn ask_all(
    endpoint: &Endpoint,
    seeds: &[Address],
    request: &ControlRequest,
    time_limit: Duration,
) -> Result<JoinAnswer> {
    let deadline = time::now() + time_limit;
    let body = bytes::Bytes::from(encode(&CONTROL_MESSAGE, request)?);
    let mut retries = RETRY.retries();
    loop {
        let mut failures = Vec::new();
        for seed in seeds {
            match ask(endpoint, seed, body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Refused(error)) => return Err(error.about(format!("seed {seed}"))),
                Err(Failure::Unreached(error)) => failures.push(format!("seed {seed}: {}", error.report())),
            }
        }
        let pause = retries.pause();
        if time::now() + pause >= deadline {
            return Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "no seed has taken this node in within {time_limit:?}: see that the cluster runs and that its addresses are right"
                ),
            )
            .with_source(failures.join("; ")));
        }
        time::sleep(pause).await;
    }
}

/// Why a seed has not taken this process in.
enum Failure {
    /// It was asked and has refused: asking again does not help.
    Refused(Error),
    /// It was not reached, or is not ready.
    Unreached(Error),
}

async fn ask(endpoint: &Endpoint, seed: &Address, body: bytes::Bytes) -> std::result::Result<JoinAnswer, Failure> {
    let node = endpoint.connect(seed).await.map_err(Failure::Unreached)?;
    let called = endpoint.call(node.into(), Class::Call, JOIN, body, ATTEMPT_TIME_LIMIT).await;
    let answer = called.map_err(|error| match error.kind() {
        ErrorKind::Invalid | ErrorKind::TooLarge => Failure::Refused(error),
        _ => Failure::Unreached(error),
    })?;
    let decoded = decode(&CONTROL_MESSAGE, &answer, || format!("the answer of node {node}"));
    match decoded.map_err(Failure::Refused)? {
        ControlAnswer::Joined(joined) => Ok(joined),
        _ => Err(Failure::Refused(Error::corrupt(format!("node {node} has answered something else than was asked")))),
    }
}
