//! TLS over a stream: both ends show who they are.

use std::sync::Arc;

use mainstay_core::time::wall;
use mainstay_core::{Error, ErrorKind, Result};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, CommonState, ServerConfig, SignatureScheme};
use rustls_pki_types::{ServerName, UnixTime};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::credentials::{Credentials, Shown};
use super::identity::Identity;
use super::verifier::{PeerCertificate, Usage, Verifier, refused_by_peer};
use crate::stream::Stream;

/// What every connection is told to speak, so that TLS meant for something else goes wrong early.
const PROTOCOL_NAME: &[u8] = b"mainstay";

/// A stream with TLS, and who is at the other end.
pub(crate) struct Secured {
    pub(crate) stream: Box<dyn Stream>,
    /// `None` if it has shown no certificate.
    pub(crate) peer: Option<(Identity, PeerCertificate)>,
}

/// TLS on a connection that was made here.
pub(crate) async fn connect(credentials: &Credentials, stream: Box<dyn Stream>) -> Result<Secured> {
    let shown = credentials.current();
    let provider = provider();
    let verifier = Verifier::new(shown.clone(), provider.signature_verification_algorithms);
    let config = ClientConfig::builder_with_details(provider, Arc::new(Clock))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable(&error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone());
    let mut config = config.with_client_cert_resolver(Arc::new(Shows(shown.clone())));
    // Who is at the other end is in its certificate, not in its address; and a session of before would skip the certificate.
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![PROTOCOL_NAME.to_vec()];
    let name = ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into());
    match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
        Ok(stream) => {
            let peer = peer(stream.get_ref().1, &shown, Usage::IsConnectedTo)?;
            Ok(Secured { peer, stream: Box::new(stream) })
        }
        Err(error) => Err(failed(&verifier, error)),
    }
}

/// TLS on a connection that was accepted here.
pub(crate) async fn accept(credentials: &Credentials, stream: Box<dyn Stream>) -> Result<Secured> {
    let shown = credentials.current();
    let provider = provider();
    let verifier = Verifier::new(shown.clone(), provider.signature_verification_algorithms);
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(Clock))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable(&error))?
        .with_client_cert_verifier(verifier.clone())
        .with_cert_resolver(Arc::new(Shows(shown.clone())));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![PROTOCOL_NAME.to_vec()];
    match TlsAcceptor::from(Arc::new(config)).accept(stream).await {
        Ok(stream) => {
            let peer = peer(stream.get_ref().1, &shown, Usage::Connects)?;
            Ok(Secured { peer, stream: Box::new(stream) })
        }
        Err(error) => Err(failed(&verifier, error)),
    }
}

fn peer(state: &CommonState, shown: &Shown, usage: Usage) -> Result<Option<(Identity, PeerCertificate)>> {
    let Some(chain) = state.peer_certificates() else { return Ok(None) };
    let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
    let certificate = PeerCertificate { chain, usage };
    let identity = certificate.verify(shown, wall())?;
    Ok(Some((identity, certificate)))
}

fn failed(verifier: &Verifier, error: std::io::Error) -> Error {
    if let Some(refused) = verifier.refused.lock().take() {
        return refused;
    }
    if let Some(refused) = refusal_in(&error) {
        return refused;
    }
    Error::new(ErrorKind::Retry, "no TLS connection could be made").with_source(error)
}

/// What a peer says that has refused our certificate.
pub(crate) fn refusal_in(error: &std::io::Error) -> Option<Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).and_then(refused_by_peer)
}

fn unusable(error: &rustls::Error) -> Error {
    Error::fatal(format!("TLS cannot be used: {error}"))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificate that is shown, whoever asks.
struct Shows(Arc<Shown>);

impl Shows {
    fn certificate(&self) -> Option<Arc<CertifiedKey>> {
        self.0.own.as_ref().map(|own| own.certificate.clone())
    }
}

impl std::fmt::Debug for Shows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shows")
    }
}

impl ResolvesServerCert for Shows {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificate()
    }
}

impl ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.certificate()
    }

    fn has_certs(&self) -> bool {
        self.0.own.is_some()
    }
}

/// The seam's wall clock, for TLS.
#[derive(Debug)]
struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_millis(wall().as_millis())))
    }
}
