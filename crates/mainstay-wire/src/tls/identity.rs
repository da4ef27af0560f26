use std::fmt;
use std::str::FromStr;

use mainstay_core::{ClusterId, Error, NodeId, Result};
use rustls_pki_types::CertificateDer;

use crate::party::Sender;

const SCHEME: &str = "mainstay://";

/// Who a certificate is for, as the URI among its alternative names says: `mainstay://<cluster>/node/<id>`,
/// `mainstay://<cluster>/client/<name>` or `mainstay://<cluster>/operator/<name>`.
///
/// ```
/// use mainstay_wire::tls::Identity;
///
/// let uri = "mainstay://c000000000000000000000000000000ab/node/7";
/// assert_eq!(uri.parse::<Identity>()?.to_string(), uri);
/// assert!("mainstay://c000000000000000000000000000000ab/node/07".parse::<Identity>().is_err());
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// Who in it.
    pub sender: Sender,
}

impl Identity {
    /// The identity in a certificate, which nobody has verified yet.
    ///
    /// # Errors
    /// `Invalid` if it has none, or more than one.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Result<Self> {
        let parsed = webpki::EndEntityCert::try_from(certificate);
        let parsed = parsed.map_err(|error| Error::invalid("the certificate cannot be read").with_source(error))?;
        let mut uris = parsed.valid_uri_names().filter(|uri| uri.starts_with(SCHEME));
        let first = uris.next().ok_or_else(|| {
            Error::invalid(
                "the certificate has no identity: a URI such as mainstay://CLUSTER/node/ID among its alternative names",
            )
        })?;
        match uris.next() {
            Some(_) => Err(Error::invalid("the certificate has two identities: issue one with one")),
            None => first.parse(),
        }
    }
}

impl FromStr for Identity {
    type Err = Error;

    fn from_str(uri: &str) -> Result<Self> {
        let bad = || {
            let shown: String = uri.chars().take(160).collect();
            Error::invalid(format!(
                "{shown:?} is no identity: it is mainstay://CLUSTER/node/ID, or /client/NAME, or /operator/NAME"
            ))
        };
        let rest = uri.strip_prefix(SCHEME).ok_or_else(bad)?;
        let mut parts = rest.splitn(3, '/');
        let (Some(cluster), Some(role), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(bad());
        };
        let cluster = cluster.strip_prefix('c').and_then(|digits| u128::from_str_radix(digits, 16).ok());
        let cluster = ClusterId(cluster.ok_or_else(bad)?);
        let sender = match role {
            "node" => Sender::Node(NodeId(name.parse().map_err(|_| bad())?)),
            "client" => Sender::client(name)?,
            "operator" => Sender::operator(name)?,
            _ => return Err(bad()),
        };
        let identity = Self { cluster, sender };
        // One identity has one spelling: signs, leading zeros and upper case would be others.
        if identity.to_string() == uri { Ok(identity) } else { Err(bad()) }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, sender } = self;
        match sender {
            Sender::Node(NodeId(id)) => write!(f, "{SCHEME}{cluster}/node/{id}"),
            Sender::Client(name) => write!(f, "{SCHEME}{cluster}/client/{name}"),
            Sender::Operator(name) => write!(f, "{SCHEME}{cluster}/operator/{name}"),
            // No certificate says so: it is what a process without one is.
            Sender::Joining => write!(f, "{SCHEME}{cluster}/joining"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_one_spelling() {
        let cluster = ClusterId(0xab);
        let senders =
            [Sender::Node(NodeId(u64::MAX)), Sender::client("web-1").unwrap(), Sender::operator("ann").unwrap()];
        for sender in senders {
            let identity = Identity { cluster, sender };
            assert_eq!(identity.to_string().parse::<Identity>().unwrap(), identity);
        }
        let c = cluster.to_string();
        for wrong in [
            String::new(),
            format!("mainstay://{c}/node/07"),
            format!("mainstay://{c}/node/+7"),
            format!("mainstay://{c}/node/7/"),
            format!("mainstay://{c}/node/"),
            format!("mainstay://{c}/client/"),
            format!("mainstay://{c}/client/a/b"),
            format!("mainstay://{c}/joining"),
            format!("mainstay://{c}/joining/"),
            format!("mainstay://{}/node/7", c.to_uppercase()),
            "mainstay://cab/node/7".to_owned(),
            format!("MAINSTAY://{c}/node/7"),
            format!("mainstay://{c}/node/99999999999999999999"),
        ] {
            assert!(wrong.parse::<Identity>().is_err(), "{wrong}");
        }
    }
}
