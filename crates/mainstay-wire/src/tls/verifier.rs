//! Whose certificates are accepted.

use std::sync::Arc;

use mainstay_core::time::WallTime;
use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use super::authority::AuthorityHash;
use super::credentials::{Shown, Trust};
use super::identity::Identity;
use crate::party::Sender;

/// What a certificate is shown for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// To be connected to.
    IsConnectedTo,
    /// To connect.
    Connects,
}

/// The certificate that the other end has shown, with all that it has shown along.
#[derive(Debug, Clone)]
pub(crate) struct PeerCertificate {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) usage: Usage,
}

/// Verifies the certificate of one connection, and keeps what was found, because TLS itself has room for an alert alone.
pub(super) struct Verifier {
    shown: Arc<Shown>,
    algorithms: WebPkiSupportedAlgorithms,
    /// What was wrong, in words.
    pub(super) refused: Mutex<Option<Error>>,
}

impl PeerCertificate {
    pub(super) fn verify(&self, shown: &Shown, now: WallTime) -> Result<Identity> {
        match self.chain.split_first() {
            Some((leaf, rest)) => verify(leaf, rest, shown, now, self.usage),
            None => Err(Error::invalid("it has shown no certificate")),
        }
    }
}

/// Is this certificate issued by an authority that is trusted, does it count now, is it for this use and this cluster, and for whom
/// is it?
pub(super) fn verify(
    leaf: &CertificateDer<'_>,
    rest: &[CertificateDer<'_>],
    shown: &Shown,
    now: WallTime,
    usage: Usage,
) -> Result<Identity> {
    let claim = Identity::of_certificate(leaf);
    let named = |text: String| match &claim {
        Ok(identity) => Error::invalid(format!("the certificate that says {identity} {text}")),
        Err(_) => Error::invalid(format!("the certificate {text}")),
    };
    let parsed =
        EndEntityCert::try_from(leaf).map_err(|error| named("cannot be read".to_owned()).with_source(error))?;
    let pinned: Vec<TrustAnchor<'_>>;
    let anchors = match &shown.trust {
        Trust::Anchors(anchors) => anchors.as_slice(),
        Trust::Pinned(hash) => {
            let authority = rest.iter().find(|certificate| AuthorityHash::of(certificate) == *hash);
            let authority =
                authority.ok_or_else(|| named("is not of the authority that the join token names".to_owned()))?;
            let anchor = webpki::anchor_from_trusted_cert(authority);
            pinned = vec![
                anchor.map_err(|error| named("has an authority that cannot be read".to_owned()).with_source(error))?,
            ];
            pinned.as_slice()
        }
    };
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_millis(now.as_millis()));
    let key_usage = match usage {
        Usage::IsConnectedTo => KeyUsage::server_auth(),
        Usage::Connects => KeyUsage::client_auth(),
    };
    let verified = parsed.verify_for_usage(algorithms, anchors, rest, at, key_usage, None, None);
    verified.map_err(|error| {
        let text = match &error {
            webpki::Error::CertExpired { .. } => "has expired: renew it",
            webpki::Error::CertNotValidYet { .. } => "does not count yet: compare the clocks",
            // An authority of the same name with another key is another one.
            webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
                "was not issued by an authority that is trusted here"
            }
            webpki::Error::CaUsedAsEndEntity => "is one of an authority, and not of a process",
            _ => "is not valid here",
        };
        named(text.to_owned()).with_source(error)
    })?;
    let identity = claim?;
    if let Some(own) = &shown.own
        && own.identity.cluster != identity.cluster
    {
        return Err(Error::invalid(format!("{identity} is of another cluster: this one is {}", own.identity.cluster)));
    }
    if usage == Usage::IsConnectedTo && !matches!(identity.sender, Sender::Node(_)) {
        return Err(Error::invalid(format!("{identity} is no node, and only nodes are connected to")));
    }
    Ok(identity)
}

impl Verifier {
    pub(super) fn new(shown: Arc<Shown>, algorithms: WebPkiSupportedAlgorithms) -> Arc<Self> {
        Arc::new(Self { shown, algorithms, refused: Mutex::new(None) })
    }

    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
        usage: Usage,
    ) -> std::result::Result<(), rustls::Error> {
        let now = WallTime::from_millis(now.as_secs().saturating_mul(1000));
        match verify(leaf, rest, &self.shown, now, usage) {
            Ok(_) => Ok(()),
            Err(error) => {
                let alert = alert(&error);
                *self.refused.lock() = Some(error);
                Err(rustls::Error::InvalidCertificate(alert))
            }
        }
    }

    fn signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

/// What the other end is told.
fn alert(error: &Error) -> CertificateError {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<webpki::Error>());
    match source {
        Some(webpki::Error::CertExpired { .. }) => CertificateError::Expired,
        Some(webpki::Error::CertNotValidYet { .. }) => CertificateError::NotValidYet,
        Some(webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey) => {
            CertificateError::UnknownIssuer
        }
        Some(webpki::Error::BadDer) => CertificateError::BadEncoding,
        _ => CertificateError::ApplicationVerificationFailure,
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity, intermediates, now, Usage::IsConnectedTo).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    /// A process that joins has none yet. What it may do without is for the policy to say.
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity, intermediates, now, Usage::Connects).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn only_tls13() -> rustls::Error {
    rustls::Error::General("only TLS 1.3 is spoken here".to_owned())
}

/// An error whose kind says that waiting does not help.
pub(super) fn refused_by_peer(error: &rustls::Error) -> Option<Error> {
    let rustls::Error::AlertReceived(alert) = error else { return None };
    Some(Error::new(
        ErrorKind::Invalid,
        format!("the peer has refused this process's certificate: {alert:?}; its log says more"),
    ))
}
