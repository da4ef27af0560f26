use std::fmt;
use std::time::Duration;

use mainstay_core::time::{WallTime, wall};
use mainstay_core::{ClusterId, Error, ErrorKind, OrError as _, Result, random};
use rand::Rng as _;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, PublicKeyData, SanType, SerialNumber, SignatureAlgorithm,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::identity::Identity;
use crate::party::Sender;

/// A certificate counts from a little before it was issued, for machines whose clocks are behind.
const BACKDATED: Duration = Duration::from_secs(5 * 60);

/// The bytes of a public key on the curve P-256, uncompressed.
const PUBLIC_KEY_BYTES: usize = 65;

/// What issues the certificates of one cluster: a key, and a certificate that everybody in the cluster trusts.
///
/// ```
/// use std::time::Duration;
///
/// use mainstay_core::{ClusterId, NodeId};
/// use mainstay_wire::Sender;
/// use mainstay_wire::tls::{Authority, Credentials, KeyPair};
///
/// let year = Duration::from_secs(365 * 24 * 60 * 60);
/// let authority = Authority::create(ClusterId(7), 10 * year)?;
/// let key = KeyPair::generate()?;
/// let issued = authority.issue(&Sender::Node(NodeId(1)), &key.public(), year)?;
/// let credentials = Credentials::from_pem(&issued.chain_pem, &key.secret_pem(), &authority.certificate_pem())?;
/// assert_eq!(credentials.identity().unwrap().sender, Sender::Node(NodeId(1)));
/// # Ok::<(), mainstay_core::Error>(())
/// ```
pub struct Authority {
    cluster: ClusterId,
    certificate_pem: String,
    hash: AuthorityHash,
    key_pem: String,
    issuer: Issuer<'static, rcgen::KeyPair>,
}

/// The SHA-256 of an authority's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuthorityHash(pub [u8; 32]);

/// A key of a node, a client or an operator. Its secret half never leaves the process that has made it.
pub struct KeyPair {
    pair: rcgen::KeyPair,
}

/// The half of a key that the authority gets to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    point: [u8; PUBLIC_KEY_BYTES],
}

/// A certificate, as it was issued.
#[derive(Debug, Clone)]
pub struct IssuedCertificate {
    /// The certificate and that of the authority, in PEM: what a process shows to others.
    pub chain_pem: String,
    /// Until when it counts.
    pub expires: WallTime,
}

impl Authority {
    /// Makes a new authority for a cluster.
    ///
    /// # Errors
    /// `Fatal` if the system has no randomness to give.
    pub fn create(cluster: ClusterId, valid_for: Duration) -> Result<Self> {
        let key = generate()?;
        let key_pem = key.serialize_pem();
        let params = authority_params(cluster, valid_for)?;
        let certificate = params.self_signed(&key).or_error(ErrorKind::Fatal, "an authority cannot be made")?;
        let hash = AuthorityHash::of(certificate.der());
        Ok(Self { cluster, certificate_pem: certificate.pem(), hash, key_pem, issuer: Issuer::new(params, key) })
    }

    /// The authority that was kept as two PEM texts.
    ///
    /// # Errors
    /// `Invalid` if one of them is none, or if they do not belong together.
    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self> {
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .or_error(ErrorKind::Invalid, "the certificate of the authority is no PEM text of one")?;
        let cluster = cluster_of(&certificate)?;
        let key = rcgen::KeyPair::from_pem(key_pem)
            .or_error(ErrorKind::Invalid, "the key of the authority is no PEM text of a private key")?;
        if !contains(&certificate, key.der_bytes()) {
            return Err(Error::invalid(
                "the key is not that of the authority's certificate: use the pair that was made together",
            ));
        }
        // What is issued names its issuer by the subject and the key, which these are; the other values play no part.
        let params = authority_params(cluster, Duration::ZERO)?;
        let (hash, certificate_pem) = (AuthorityHash::of(&certificate), certificate_pem.to_owned());
        Ok(Self { cluster, certificate_pem, hash, key_pem: key_pem.to_owned(), issuer: Issuer::new(params, key) })
    }

    /// The cluster whose certificates it issues.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Its certificate, which everybody may see.
    pub fn certificate_pem(&self) -> String {
        self.certificate_pem.clone()
    }

    /// Its key. Who has it can be anybody in this cluster: keep it where only the cluster's owner can read it.
    pub fn secret_pem(&self) -> String {
        self.key_pem.clone()
    }

    /// By what a new node recognises it.
    pub fn hash(&self) -> AuthorityHash {
        self.hash
    }

    /// Issues a certificate for a key.
    ///
    /// # Errors
    /// `Invalid` for [`Sender::Joining`], which is the lack of a certificate.
    pub fn issue(&self, sender: &Sender, key: &PublicKey, valid_for: Duration) -> Result<IssuedCertificate> {
        if *sender == Sender::Joining {
            return Err(Error::invalid("a certificate is for a node, a client or an operator"));
        }
        let identity = Identity { cluster: self.cluster, sender: sender.clone() };
        let expires = wall().saturating_add(valid_for);
        let mut params = params(&sender.to_string(), &identity.to_string(), expires)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Only nodes are connected to.
        params.extended_key_usages = match sender {
            Sender::Node(_) => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            _ => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        let certificate =
            params.signed_by(key, &self.issuer).or_error(ErrorKind::Fatal, "a certificate cannot be issued")?;
        Ok(IssuedCertificate { chain_pem: certificate.pem() + &self.certificate_pem, expires })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("cluster", &self.cluster).field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl AuthorityHash {
    /// Of a certificate.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl KeyPair {
    /// Makes a new key, on the curve P-256.
    ///
    /// # Errors
    /// `Fatal` if the system has no randomness to give.
    pub fn generate() -> Result<Self> {
        generate().map(|pair| Self { pair })
    }

    /// The half that a certificate is issued for.
    pub fn public(&self) -> PublicKey {
        let mut point = [0; PUBLIC_KEY_BYTES];
        // A key on this curve has exactly this many bytes.
        point.copy_from_slice(self.pair.der_bytes());
        PublicKey { point }
    }

    /// The key in PEM, for the folder of its process.
    pub fn secret_pem(&self) -> String {
        self.pair.serialize_pem()
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPair")
    }
}

impl PublicKey {
    /// The bytes that are sent to the authority.
    pub fn to_bytes(&self) -> [u8; PUBLIC_KEY_BYTES] {
        self.point
    }

    /// The key that was sent. That its sender has the other half shows when the certificate is used.
    ///
    /// # Errors
    /// `Invalid` if it is no uncompressed point.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        match <[u8; PUBLIC_KEY_BYTES]>::try_from(bytes) {
            Ok(point) if point[0] == 4 => Ok(Self { point }),
            _ => {
                Err(Error::invalid("a public key is an uncompressed point of P-256: 65 bytes, of which the first is 4"))
            }
        }
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.point
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

fn generate() -> Result<rcgen::KeyPair> {
    rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).or_error(ErrorKind::Fatal, "a key cannot be made")
}

fn authority_params(cluster: ClusterId, valid_for: Duration) -> Result<CertificateParams> {
    let uri = format!("mainstay://{cluster}/authority");
    let mut params = params(&format!("authority of {cluster}"), &uri, wall().saturating_add(valid_for))?;
    // It signs certificates of processes, and no other authority.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn params(name: &str, uri: &str, expires: WallTime) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "mainstay");
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    params.not_before = date(wall().saturating_sub(BACKDATED))?;
    params.not_after = date(expires)?;
    let mut serial = [0; 16];
    random::rng().fill_bytes(&mut serial);
    // Positive, and never of a length that varies.
    serial[0] = serial[0] & 0x3f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let uri = uri.try_into().or_error(ErrorKind::Invalid, "an identity has ASCII characters alone")?;
    params.subject_alt_names = vec![SanType::URI(uri)];
    Ok(params)
}

fn date(moment: WallTime) -> Result<OffsetDateTime> {
    let seconds = i64::try_from(moment.as_millis() / 1000).ok();
    seconds
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .or_error(ErrorKind::Invalid, "a certificate cannot count until then: choose a shorter time")
}

/// The cluster that the certificate of an authority is for.
fn cluster_of(certificate: &CertificateDer<'_>) -> Result<ClusterId> {
    let parsed = webpki::EndEntityCert::try_from(certificate)
        .or_error(ErrorKind::Invalid, "the certificate of the authority cannot be read")?;
    let cluster = parsed.valid_uri_names().find_map(|uri| {
        let digits = uri.strip_prefix("mainstay://c")?.strip_suffix("/authority")?;
        u128::from_str_radix(digits, 16).ok()
    });
    cluster.map(ClusterId).ok_or_else(|| {
        Error::invalid(
            "the certificate is not that of an authority which was made here: issue certificates where it was made",
        )
    })
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|part| part == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::NodeId;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    #[test]
    fn an_authority_that_was_kept_issues_what_the_first_one_would() {
        let made = Authority::create(ClusterId(7), YEAR).unwrap();
        let kept = Authority::from_pem(&made.certificate_pem(), &made.secret_pem()).unwrap();
        assert_eq!((kept.cluster(), kept.hash()), (made.cluster(), made.hash()));
        let key = KeyPair::generate().unwrap();
        let public = PublicKey::from_bytes(&key.public().to_bytes()).unwrap();
        for authority in [&made, &kept] {
            let issued = authority.issue(&Sender::Node(NodeId(3)), &public, YEAR).unwrap();
            let credentials =
                super::super::Credentials::from_pem(&issued.chain_pem, &key.secret_pem(), &made.certificate_pem())
                    .unwrap();
            assert_eq!(credentials.identity().unwrap().to_string(), format!("mainstay://{}/node/3", ClusterId(7)));
        }
    }

    #[test]
    fn a_key_of_another_authority_or_of_none_is_refused() {
        let (one, two) =
            (Authority::create(ClusterId(7), YEAR).unwrap(), Authority::create(ClusterId(7), YEAR).unwrap());
        let error = Authority::from_pem(&one.certificate_pem(), &two.secret_pem()).unwrap_err();
        assert!(error.to_string().contains("made together"), "{error}");
        assert!(Authority::from_pem("", &two.secret_pem()).is_err());
        assert!(Authority::from_pem(&one.certificate_pem(), "x").is_err());
        let key = KeyPair::generate().unwrap();
        let node = one.issue(&Sender::Node(NodeId(3)), &key.public(), YEAR).unwrap();
        let error = Authority::from_pem(&node.chain_pem, &key.secret_pem()).unwrap_err();
        assert!(error.to_string().contains("not that of an authority"), "{error}");
        assert!(one.issue(&Sender::Joining, &key.public(), YEAR).is_err());
        assert!(one.issue(&Sender::Node(NodeId(1)), &key.public(), Duration::MAX).is_err());
        for wrong in [&[][..], &[4; 64], &[2; 65], &[4; 66]] {
            assert!(PublicKey::from_bytes(wrong).is_err());
        }
    }
}
