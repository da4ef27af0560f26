//! Joining with a token, where TLS is on.

use std::sync::Arc;

use mainstay_cluster::message::ControlRequest;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, NodeId};
use mainstay_wire::Sender;
use mainstay_wire::tls::{Authority, Credentials, JoinToken, KeyPair, Secret, Security};
use sha2::{Digest as _, Sha256};

use crate::support::*;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[tokio::test(start_paused = true)]
async fn a_node_joins_with_a_token_once_and_starts_again_with_its_certificate() {
    let machines = machines(3);
    // The first node draws its cluster, which its certificate names.
    let begun = machines[0].start(&[]).await.unwrap();
    begun.announced().await.unwrap();
    let cluster = begun.state().cluster().unwrap().id;
    begun.crash().await;
    let authority = Arc::new(Authority::create(cluster, 10 * YEAR).unwrap());
    let key = KeyPair::generate().unwrap();
    let issued = authority.issue(&Sender::Node(NodeId(1)), &key.public(), YEAR).unwrap();
    let credentials =
        Credentials::from_pem(&issued.chain_pem, &key.secret_pem(), &authority.certificate_pem()).unwrap();
    let mut options = machines[0].options(&[]);
    options.security = Security::Tls(credentials);
    options.authority = Some(authority.clone());
    let first = machines[0].start_with(&options).await.unwrap();
    first.announced().await.unwrap();

    let secret = Secret::generate().unwrap();
    let expires = time::wall().saturating_add(Duration::from_secs(3600));
    let hash = Sha256::digest(secret.to_bytes()).into();
    first.request(ControlRequest::CreateToken { hash, expires }).await.unwrap();
    let token = JoinToken::new(vec![address("n1")], cluster, authority.hash(), secret, expires).unwrap();
    let mut options = machines[1].options(&[]);
    options.token = Some(token.clone());
    let second = machines[1].start_with(&options).await.unwrap();
    second.announced().await.unwrap();
    assert_eq!(second.node.node(), NodeId(2));
    second.crash().await;
    // Neither the token nor the seeds are needed any more.
    let second = machines[1].start(&[]).await.unwrap();
    second.announced().await.unwrap();
    second.until_settled(2, 1).await;

    let mut options = machines[2].options(&[]);
    options.token = Some(token);
    let error = machines[2].start_with(&options).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("used by another node"), "{error}");
    // Without a token nothing is even asked: the nodes do not speak to what is not protected.
    let mut options = machines[2].options(&["n1"]);
    options.join_time_limit = Duration::from_secs(5);
    let error = machines[2].start_with(&options).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
}
