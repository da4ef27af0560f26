use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use mainstay_core::time::wall;
use mainstay_core::{Error, ErrorKind, OrError as _, Result};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, TrustAnchor};
use tokio::sync::watch;

use super::authority::AuthorityHash;
use super::identity::Identity;
use super::validity::Validity;
use super::verifier::{PeerCertificate, Usage, verify};

/// The most certificates in one PEM file. A chain has two or three, and few trust more than two authorities.
const CERTIFICATES_MAX: usize = 16;

/// The longest PEM file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a process shows of itself, and whom it trusts: its certificate with its key, and authorities.
///
/// They can be replaced at any time: new connections use what is there when they are made, and open ones are moved to new
/// ones without a failed call.
pub struct Credentials {
    current: ArcSwap<Shown>,
    replaced: watch::Sender<u64>,
}

/// What counts at one time.
pub(super) struct Shown {
    /// `None` for a process that is about to join.
    pub(super) own: Option<Own>,
    pub(super) trust: Trust,
}

pub(super) struct Own {
    pub(super) identity: Identity,
    pub(super) certificate: Arc<CertifiedKey>,
    pub(super) validity: Validity,
}

pub(super) enum Trust {
    /// Whatever these authorities have issued.
    Anchors(Vec<TrustAnchor<'static>>),
    /// Whatever an authority with this hash has issued, which is to be shown along.
    Pinned(AuthorityHash),
}

impl Credentials {
    /// From PEM texts: the certificate with those that lead up to the authority, its key, and the authorities to trust. All of
    /// them may come from elsewhere; the certificate needs an [`Identity`] among its alternative names.
    ///
    /// # Errors
    /// `Invalid` if something cannot be read, does not fit together, or would not be accepted by others.
    pub fn from_pem(chain: &str, key: &str, authorities: &str) -> Result<Arc<Self>> {
        let shown = Shown::from_pem(chain.as_bytes(), key.as_bytes(), authorities.as_bytes())?;
        Ok(Self::showing(shown))
    }

    /// As [`from_pem`](Self::from_pem), from files.
    ///
    /// # Errors
    /// As [`from_pem`](Self::from_pem), and if a file cannot be read; the text names it.
    pub fn from_files(chain: &Path, key: &Path, authorities: &Path) -> Result<Arc<Self>> {
        let shown = Shown::from_pem(&read(chain)?, &read(key)?, &read(authorities)?);
        let shown = shown.map_err(|error| {
            error.about(format!("{}, {}, {}", chain.display(), key.display(), authorities.display()))
        })?;
        Ok(Self::showing(shown))
    }

    /// Without a certificate, for a process that is about to join: it trusts the nodes that show an authority with this hash.
    pub fn joining(authority: AuthorityHash) -> Arc<Self> {
        Self::showing(Shown { own: None, trust: Trust::Pinned(authority) })
    }

    fn showing(shown: Shown) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(shown), replaced: watch::Sender::new(0) })
    }

    /// Shows and trusts other ones from now on. Endpoints that use these credentials move their connections over by themselves.
    ///
    /// # Errors
    /// As [`from_pem`](Self::from_pem), and `Invalid` if the new certificate is for someone else; then nothing changes.
    pub fn replace(&self, chain: &str, key: &str, authorities: &str) -> Result<()> {
        let new = Shown::from_pem(chain.as_bytes(), key.as_bytes(), authorities.as_bytes())?;
        let (old, new_identity) = (self.identity(), new.own.as_ref().map(|own| &own.identity));
        if let (Some(old), Some(new)) = (&old, new_identity)
            && old != new
        {
            return Err(Error::invalid(format!(
                "a certificate of {old} cannot be replaced by one of {new}: restart with that"
            )));
        }
        self.current.store(Arc::new(new));
        self.replaced.send_modify(|times| *times += 1);
        Ok(())
    }

    /// Who the certificate says that this process is; `None` without one.
    pub fn identity(&self) -> Option<Identity> {
        self.current.load().own.as_ref().map(|own| own.identity.clone())
    }

    /// How long the certificate counts; `None` without one.
    pub fn validity(&self) -> Option<Validity> {
        self.current.load().own.as_ref().map(|own| own.validity)
    }

    pub(super) fn current(&self) -> Arc<Shown> {
        self.current.load_full()
    }

    /// Changes whenever they are replaced.
    pub(crate) fn replaced(&self) -> watch::Receiver<u64> {
        self.replaced.subscribe()
    }

    /// Will a certificate count in a while that did when its connection was made?
    pub(crate) fn recheck(&self, certificate: &PeerCertificate, ahead: Duration) -> Result<()> {
        certificate.verify(&self.current(), wall().saturating_add(ahead)).map(|_| ())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = self.identity().map(|identity| identity.to_string());
        f.debug_struct("Credentials").field("identity", &identity).finish_non_exhaustive()
    }
}

impl Shown {
    fn from_pem(chain: &[u8], key: &[u8], authorities: &[u8]) -> Result<Self> {
        let chain = certificates(chain, "certificate chain")?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .or_error(ErrorKind::Invalid, "the key is no PEM text of a private key")?;
        let mut anchors = Vec::new();
        for authority in certificates(authorities, "list of authorities")? {
            let anchor = webpki::anchor_from_trusted_cert(&authority);
            anchors.push(
                anchor.or_error(ErrorKind::Invalid, "the certificate of an authority cannot be read")?.to_owned(),
            );
        }
        // `certificates` returns one at least.
        let leaf = chain.first().or_error(ErrorKind::Invalid, "there is no certificate")?;
        let (identity, validity) = (Identity::of_certificate(leaf)?, Validity::of_certificate(leaf)?);
        let own = (leaf.clone(), chain[1..].to_vec());
        let certificate = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())
            .or_error(ErrorKind::Invalid, "the key is not that of the certificate, or of a kind that cannot be used")?;
        let own_identity = identity.clone();
        let shown = Self {
            own: Some(Own { identity, certificate: Arc::new(certificate), validity }),
            trust: Trust::Anchors(anchors),
        };
        // What others would refuse is better refused here, where somebody looks.
        verify(&own.0, &own.1, &shown, wall(), Usage::Connects)
            .map_err(|error| error.about(format!("own certificate, {own_identity}")))?;
        Ok(shown)
    }
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX + 1).collect();
    let found = found.or_error_with(ErrorKind::Invalid, || format!("the {what} is damaged"))?;
    match found.len() {
        0 => Err(Error::invalid(format!("the {what} has no certificate in PEM"))),
        1..=CERTIFICATES_MAX => Ok(found),
        _ => Err(Error::new(ErrorKind::TooLarge, format!("the {what} has more than {CERTIFICATES_MAX} certificates"))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read as _;
    let failed = || format!("{} cannot be read: check the path and who may read it", path.display());
    let file = std::fs::File::open(path).or_error_with(ErrorKind::Invalid, failed)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).or_error_with(ErrorKind::Invalid, failed)?;
    Ok(bytes)
}
