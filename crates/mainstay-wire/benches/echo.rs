//! How fast the wire is beside a bare multiplexed echo over the same sockets and the same TLS.
//!
//! `cargo bench -p mainstay-wire` prints calls per second for 1 and 64 calls at a time, with TLS and without, and the ratio to the
//! bare echo: length and number in front of each message, one task per connection, many messages in one write; no checksums, classes,
//! credits, deadlines or cancellation. The two take turns, and each figure is the median of the rounds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time and may panic"
)]

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::task::AtomicWaker;
use mainstay_core::{ClusterId, NodeId};
use mainstay_wire::tls::{Authority, Credentials, KeyPair, Security};
use mainstay_wire::{Class, Endpoint, EndpointOptions, Incoming, Kind, Sender, Serve, TcpListen};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

const ECHO: Kind = Kind::call(1);
const BODY_BYTES: usize = 100;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(700);

struct Echo;

impl Serve for Echo {
    fn receive(&self, incoming: Incoming) {
        let body = incoming.body().clone();
        incoming.answer(Ok(body));
    }
}

/// What is measured: one call.
#[derive(Clone)]
enum Contender {
    Wire(Endpoint),
    Bare(Arc<Bare>),
}

impl Contender {
    async fn call(&self, body: Bytes) {
        match self {
            Contender::Wire(endpoint) => {
                let answer =
                    endpoint.call(NodeId(1).into(), Class::Call, ECHO, body, Duration::from_secs(10)).await.unwrap();
                assert_eq!(answer.len(), BODY_BYTES);
            }
            Contender::Bare(bare) => assert_eq!(bare.call(body).await.len(), BODY_BYTES),
        }
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("{:<8}{:>10}{:>14}{:>14}{:>8}", "tls", "at once", "wire /s", "bare /s", "ratio");
    for tls in [true, false] {
        let (wire, bare) = runtime.block_on(contenders(tls));
        for at_once in [1, 64] {
            let (mut of_wire, mut of_bare) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                of_wire.push(runtime.block_on(round(&wire, at_once)));
                of_bare.push(runtime.block_on(round(&bare, at_once)));
            }
            let (wire, bare) = (median(of_wire), median(of_bare));
            println!(
                "{:<8}{at_once:>10}{wire:>14.0}{bare:>14.0}{:>7.0}%",
                if tls { "on" } else { "off" },
                wire / bare * 100.0
            );
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Calls per second.
async fn round(contender: &Contender, at_once: usize) -> f64 {
    let begun = Instant::now();
    let callers: Vec<_> = (0..at_once)
        .map(|_| {
            let contender = contender.clone();
            tokio::spawn(async move {
                let body = Bytes::from(vec![7; BODY_BYTES]);
                let mut calls = 0;
                while begun.elapsed() < ROUND {
                    contender.call(body.clone()).await;
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.unwrap();
    }
    f64::from(calls) / begun.elapsed().as_secs_f64()
}

async fn contenders(tls: bool) -> (Contender, Contender) {
    let cluster = ClusterId(7);
    let year = Duration::from_secs(365 * 24 * 3600);
    let authority = Authority::create(cluster, year).unwrap();
    let identities = [Sender::Node(NodeId(1)), Sender::client("bench").unwrap()];
    let shown = identities.clone().map(|sender| {
        let key = KeyPair::generate().unwrap();
        (authority.issue(&sender, &key.public(), year).unwrap().chain_pem, key.secret_pem())
    });
    let options = |i: usize| {
        let mut options = EndpointOptions::new(identities[i].clone(), Some(cluster));
        if tls {
            let (chain, key) = &shown[i];
            options.security = Security::Tls(Credentials::from_pem(chain, key, &authority.certificate_pem()).unwrap());
        }
        options
    };
    let server = Endpoint::start(options(0), Arc::new(Echo)).unwrap();
    let address = server.listen(TcpListen::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap()).unwrap();
    let client = Endpoint::start(options(1), Arc::new(Echo)).unwrap();
    client.connect(&address).await.unwrap();
    // It serves for as long as the process runs.
    std::mem::forget(server);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (dialed, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    let (dialed, accepted) = (dialed.unwrap(), accepted.unwrap().0);
    dialed.set_nodelay(true).unwrap();
    accepted.set_nodelay(true).unwrap();
    let bare = match tls {
        false => Bare::start(Box::new(dialed), Box::new(accepted)),
        true => {
            let (dialed, accepted) = bare_tls(dialed, accepted, &shown, &authority.certificate_pem()).await;
            Bare::start(dialed, accepted)
        }
    };
    (Contender::Wire(client), Contender::Bare(bare))
}

trait Bytestream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytestream for S {}

/// TLS with both ends authenticated, as the library offers it.
async fn bare_tls(
    dialed: TcpStream,
    accepted: TcpStream,
    shown: &[(String, String); 2],
    authority: &str,
) -> (Box<dyn Bytestream>, Box<dyn Bytestream>) {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let roots = Arc::new(roots);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pem = |i: usize| {
        let (chain, key): &(String, String) = &shown[i];
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect::<Vec<_>>();
        (chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
    };
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build().unwrap();
    let (chain, key) = pem(0);
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap();
    let (chain, key) = pem(1);
    let client = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName(provider)))
        .with_client_auth_cert(chain, key)
        .unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let (dialed, accepted) = tokio::join!(
        tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, dialed),
        tokio_rustls::TlsAcceptor::from(Arc::new(server)).accept(accepted)
    );
    (Box::new(dialed.unwrap()), Box::new(accepted.unwrap()))
}

/// Takes any certificate: it is not the handshake that is measured.
#[derive(Debug)]
struct AnyName(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        unreachable!("only TLS 1.3 is spoken")
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &rustls::pki_types::CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The bare echo: what multiplexing costs at least.
struct Bare {
    state: Mutex<BareState>,
    driver: AtomicWaker,
}

#[derive(Default)]
struct BareState {
    output: BytesMut,
    next: u64,
    waiting: HashMap<u64, Slot>,
}

enum Slot {
    Waiting(Option<Waker>),
    Done(Bytes),
}

impl Bare {
    fn start(dialed: Box<dyn Bytestream>, accepted: Box<dyn Bytestream>) -> Arc<Self> {
        let side = || Arc::new(Bare { state: Mutex::default(), driver: AtomicWaker::new() });
        let (client, server) = (side(), side());
        tokio::spawn(drive(server, accepted, true));
        tokio::spawn(drive(client.clone(), dialed, false));
        client
    }

    async fn call(&self, body: Bytes) -> Bytes {
        let id = {
            let mut state = self.state.lock();
            let id = state.next;
            state.next += 1;
            state.output.put_u32_le(body.len() as u32);
            state.output.put_u64_le(id);
            state.output.put_slice(&body);
            state.waiting.insert(id, Slot::Waiting(None));
            id
        };
        self.driver.wake();
        poll_fn(|cx| {
            let mut state = self.state.lock();
            match state.waiting.remove(&id).expect("it is there until it is done") {
                Slot::Done(body) => Poll::Ready(body),
                Slot::Waiting(_) => {
                    state.waiting.insert(id, Slot::Waiting(Some(cx.waker().clone())));
                    Poll::Pending
                }
            }
        })
        .await
    }
}

async fn drive(bare: Arc<Bare>, mut stream: Box<dyn Bytestream>, answers: bool) {
    let (mut input, mut output, mut buffer) = (BytesMut::new(), BytesMut::new(), vec![0; 64 << 10]);
    poll_fn(move |cx| {
        bare.driver.register(cx.waker());
        loop {
            let mut read = ReadBuf::new(&mut buffer);
            match Pin::new(&mut *stream).poll_read(cx, &mut read) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => input.put_slice(read.filled()),
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
            let (mut wakers, mut state) = (Vec::new(), bare.state.lock());
            while input.len() >= 12 {
                let length = u32::from_le_bytes(input[..4].try_into().unwrap()) as usize;
                if input.len() < 12 + length {
                    break;
                }
                if answers {
                    output.put_slice(&input[..12 + length]);
                } else {
                    let id = u64::from_le_bytes(input[4..12].try_into().unwrap());
                    let body = Bytes::copy_from_slice(&input[12..12 + length]);
                    if let Some(Slot::Waiting(Some(waker))) = state.waiting.insert(id, Slot::Done(body)) {
                        wakers.push(waker);
                    }
                }
                input.advance(12 + length);
            }
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }
        loop {
            {
                let mut state = bare.state.lock();
                output.put_slice(&state.output);
                state.output.clear();
            }
            if output.is_empty() {
                break;
            }
            match Pin::new(&mut *stream).poll_write(cx, &output) {
                Poll::Ready(Ok(count)) => output.advance(count),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        let _ = Pin::new(&mut *stream).poll_flush(cx);
        Poll::Pending
    })
    .await;
}
