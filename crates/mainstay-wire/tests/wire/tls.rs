//! TLS on real sockets: who is let in, and how certificates are replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mainstay_core::time::{start_thread_wall, wall};
use mainstay_core::{ClusterId, ErrorKind, NodeId, task};
use mainstay_wire::tls::{Authority, Credentials, Identity, KeyPair, Security};
use mainstay_wire::{Address, Class, Endpoint, EndpointOptions, Lane, RolePolicy, Sender, TcpListen};

use crate::hostile::log_lines;
use crate::support::*;

const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn authority() -> Authority {
    Authority::create(CLUSTER, 10 * YEAR).unwrap()
}

fn credentials(authority: &Authority, sender: &Sender, valid_for: Duration) -> Arc<Credentials> {
    let key = KeyPair::generate().unwrap();
    let issued = authority.issue(sender, &key.public(), valid_for).unwrap();
    Credentials::from_pem(&issued.chain_pem, &key.secret_pem(), &authority.certificate_pem()).unwrap()
}

fn options(sender: Sender, credentials: &Arc<Credentials>) -> EndpointOptions {
    let mut options = EndpointOptions::new(sender, credentials.identity().map(|identity| identity.cluster));
    options.security = Security::Tls(credentials.clone());
    options
}

async fn listen(process: &Process) -> Address {
    process.endpoint.listen(TcpListen::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap()).unwrap()
}

fn node_of(authority: &Authority, id: u64) -> Process {
    let sender = Sender::Node(NodeId(id));
    start(options(sender.clone(), &credentials(authority, &sender, YEAR)))
}

#[tokio::test]
async fn the_sender_is_who_the_certificate_says() {
    let authority = authority();
    let (one, two) = (node_of(&authority, 1), node_of(&authority, 2));
    two.endpoint.set_address(NodeId(1), listen(&one).await);
    until(|| one.endpoint.is_connected(peer(2), Lane::Data)).await;
    let large = vec![7; 3 << 20];
    assert!(two.call(1, ECHO, large.clone()).await.unwrap() == large);
    two.call(1, MEMBER, "x").await.unwrap();
    let web = Sender::client("web").unwrap();
    let web = start(options(web.clone(), &credentials(&authority, &web, YEAR)));
    web.endpoint.connect(&listen(&one).await).await.unwrap();
    web.call(1, NOTE, "x").await.unwrap();
    assert!(web.call(1, MEMBER, "x").await.is_err());
    let senders: Vec<_> = one.desk.notes.lock().iter().map(|(sender, _, _)| sender.to_string()).collect();
    assert_eq!(senders, ["node n2", "client web"]);
}

/// Two nodes of which the second shows these credentials: what is logged by the first, and what the second is told.
async fn refused(one: &Arc<Credentials>, two: &Arc<Credentials>) -> (String, String) {
    let (lines, _guard) = log_lines();
    let first = start(options(Sender::Node(NodeId(1)), one));
    let sender = two.identity().map_or(Sender::Joining, |identity| identity.sender);
    let second = start(options(sender, two));
    let error = second.endpoint.connect(&listen(&first).await).await.unwrap_err();
    until(|| !lines.lock().is_empty()).await;
    assert!(first.desk.connected.lock().is_empty());
    (lines.lock().join("\n"), format!("{error:?}"))
}

#[tokio::test]
async fn a_certificate_that_does_not_count_is_refused_by_name() {
    let ours = authority();
    let node = |id| Sender::Node(NodeId(id));
    let one = credentials(&ours, &node(1), YEAR);

    // Of another authority for the same cluster, which the second one trusts as well as ours.
    let other = authority();
    let key = KeyPair::generate().unwrap();
    let issued = other.issue(&node(2), &key.public(), YEAR).unwrap();
    let both = ours.certificate_pem() + &other.certificate_pem();
    let two = Credentials::from_pem(&issued.chain_pem, &key.secret_pem(), &both).unwrap();
    let (line, told) = refused(&one, &two).await;
    assert!(line.contains("/node/2 was not issued by an authority that is trusted here"), "{line}");
    assert!(told.contains("refused this process's certificate"), "{told}");

    // Signed by itself.
    let key = rcgen::KeyPair::generate().unwrap();
    let identity = Identity { cluster: CLUSTER, sender: node(2) };
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::URI(identity.to_string().try_into().unwrap())];
    let own = params.self_signed(&key).unwrap().pem();
    let two = Credentials::from_pem(&own, &key.serialize_pem(), &(own.clone() + &ours.certificate_pem())).unwrap();
    let (line, _) = refused(&one, &two).await;
    assert!(line.contains("/node/2 was not issued by an authority"), "{line}");

    // Of nobody, where joining is not allowed.
    let (line, told) = refused(&one, &Credentials::joining(ours.hash())).await;
    assert!(
        line.contains("without a certificate may not connect") && told.contains("join with a token"),
        "{line} {told}"
    );

    // Expired, for everybody who looks at a clock.
    let (one, two) = (credentials(&ours, &node(1), YEAR), credentials(&ours, &node(2), HOUR));
    let now = wall();
    start_thread_wall(now.saturating_add(2 * HOUR));
    let (line, told) = refused(&one, &two).await;
    assert!(line.contains("/node/2 has expired"), "{line}");
    assert!(told.contains("Expired"), "{told}");
    start_thread_wall(now.saturating_sub(2 * HOUR));
    // Neither counts yet, and the one that has dialed sees that first.
    let (_, told) = refused(&one, &two).await;
    assert!(told.contains("/node/1 does not count yet"), "{told}");
}

#[tokio::test]
async fn own_files_of_a_shared_authority_keep_clusters_apart() {
    // The authority of a company, which knows nothing of us.
    let company_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let company = params.self_signed(&company_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(params, company_key);
    let folder = tempfile::tempdir().unwrap();
    let issue = |name: &str, uris: &[&str]| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["node.example".to_owned()]).unwrap();
        params.subject_alt_names.extend(uris.iter().map(|uri| rcgen::SanType::URI((*uri).try_into().unwrap())));
        let paths = ["crt", "key", "ca"].map(|end| folder.path().join(format!("{name}.{end}")));
        let texts = [params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem(), company.clone()];
        for (path, text) in paths.iter().zip(texts) {
            std::fs::write(path, text).unwrap();
        }
        Credentials::from_files(&paths[0], &paths[1], &paths[2])
    };
    let (ours, theirs) = (CLUSTER, ClusterId(0xbad));
    let one = issue("one", &[&format!("mainstay://{ours}/node/1"), "https://elsewhere.example"]).unwrap();
    let two = issue("two", &[&format!("mainstay://{ours}/node/2")]).unwrap();
    let stranger = issue("stranger", &[&format!("mainstay://{theirs}/node/2")]).unwrap();

    let (a, b) = (start(options(Sender::Node(NodeId(1)), &one)), start(options(Sender::Node(NodeId(2)), &two)));
    b.endpoint.connect(&listen(&a).await).await.unwrap();
    b.call(1, ECHO, "x").await.unwrap();
    let (line, told) = refused(&one, &stranger).await;
    let text = line + &told;
    assert!(text.contains("is of another cluster"), "{text}");

    let error = issue("nobody", &[]).unwrap_err().to_string();
    assert!(error.contains("no identity") && error.contains("nobody.crt"), "{error}");
    let twice = [&*format!("mainstay://{ours}/node/1"), &*format!("mainstay://{ours}/node/2")];
    assert!(issue("two-faced", &twice).unwrap_err().to_string().contains("two identities"));
    assert!(
        Credentials::from_files(&folder.path().join("none"), &folder.path().join("none"), &folder.path().join("none"))
            .is_err()
    );
    // A certificate for someone else than the process says it is.
    let error = Endpoint::start(options(Sender::Node(NodeId(3)), &one), Arc::new(Desk::default())).unwrap_err();
    assert!(error.to_string().contains("the certificate is for"), "{error}");
}

#[tokio::test]
async fn certificates_are_replaced_under_load_without_a_failed_call() {
    let authority = authority();
    let senders = [Sender::Node(NodeId(1)), Sender::Node(NodeId(2))];
    let shown = senders.clone().map(|sender| credentials(&authority, &sender, YEAR));
    let [one, two] = [0, 1].map(|i| start(options(senders[i].clone(), &shown[i])));
    let (first, second) = (listen(&one).await, listen(&two).await);
    one.endpoint.set_address(NodeId(2), second);
    two.endpoint.set_address(NodeId(1), first);
    until(|| one.endpoint.is_connected(peer(2), Lane::Data) && two.endpoint.is_connected(peer(1), Lane::Data)).await;
    let done = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = [(&one, 2), (&two, 1)]
        .into_iter()
        .flat_map(|(from, to)| std::iter::repeat_n((from.endpoint.clone(), to), 8))
        .map(|(endpoint, to)| {
            let done = done.clone();
            task::spawn(async move {
                let mut count = 0;
                while !done.load(Ordering::SeqCst) {
                    endpoint.call(peer(to), Class::Call, ECHO, vec![1; 1000].into(), MINUTE).await.unwrap();
                    count += 1;
                }
                count
            })
        })
        .collect();
    // In the middle, the authority itself is replaced: first trusted, then used.
    let next = self::authority();
    let both = authority.certificate_pem() + &next.certificate_pem();
    for (issuer, trusted) in [(&authority, both.clone()), (&next, both), (&next, next.certificate_pem())] {
        for i in [0, 1] {
            let before = one.desk.connected.lock().len();
            let key = KeyPair::generate().unwrap();
            let issued = issuer.issue(&senders[i], &key.public(), YEAR).unwrap();
            shown[i].replace(&issued.chain_pem, &key.secret_pem(), &trusted).unwrap();
            until(|| one.desk.connected.lock().len() >= before + 2).await;
        }
    }
    done.store(true, Ordering::SeqCst);
    for load in load {
        assert!(load.await.unwrap() > 0);
    }
    // What is for someone else is not taken.
    let key = KeyPair::generate().unwrap();
    let issued = next.issue(&Sender::Node(NodeId(3)), &key.public(), YEAR).unwrap();
    assert!(shown[0].replace(&issued.chain_pem, &key.secret_pem(), &next.certificate_pem()).is_err());
}

#[tokio::test]
async fn who_joins_recognises_the_cluster_by_the_hash_of_its_authority() {
    let (ours, other) = (authority(), authority());
    let sender = Sender::Node(NodeId(1));
    let mut options_of_one = options(sender.clone(), &credentials(&ours, &sender, YEAR));
    options_of_one.policy = Arc::new(RolePolicy::default().joining());
    let one = start(options_of_one);
    let address = listen(&one).await;
    let new = start(options(Sender::Joining, &Credentials::joining(ours.hash())));
    new.endpoint.connect(&address).await.unwrap();
    new.call(1, JOIN, "please").await.unwrap();
    assert_eq!(one.desk.notes.lock()[0].0, Sender::Joining);
    let misled = start(options(Sender::Joining, &Credentials::joining(other.hash())));
    let error = misled.endpoint.connect(&address).await.unwrap_err();
    assert!(error.to_string().contains("not of the authority that the join token names"), "{error}");
    // Without a certificate it cannot say that it is somebody.
    let liar = EndpointOptions {
        sender: Sender::Node(NodeId(2)),
        ..options(Sender::Joining, &Credentials::joining(ours.hash()))
    };
    assert!(Endpoint::start(liar, Arc::new(Desk::default())).is_err());
}

#[tokio::test]
async fn without_tls_nothing_leaves_the_machine_unless_it_is_said() {
    let options = EndpointOptions::new(Sender::Node(NodeId(1)), Some(CLUSTER));
    let one = start(options.clone());
    let everywhere = TcpListen::bind(&"0.0.0.0:0".parse().unwrap()).await.unwrap();
    let error = one.endpoint.listen(everywhere).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("tls = \"off\""), "{error}");
    let off = start(EndpointOptions { security: Security::Off, ..options });
    off.endpoint.listen(TcpListen::bind(&"0.0.0.0:0".parse().unwrap()).await.unwrap()).unwrap();
    // TLS on one end alone is told from garbage.
    let authority = authority();
    let sender = Sender::Node(NodeId(2));
    let two = start(self::options(sender.clone(), &credentials(&authority, &sender, YEAR)));
    let error = two.endpoint.connect(&listen(&one).await).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
}
