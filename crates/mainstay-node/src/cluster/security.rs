use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, OrError as _, Result};
use mainstay_wire::tls::{Authority, Credentials, Security};

use crate::settings::{ClusterSettings, TlsMode};

/// How connections are protected, as the settings say. A node that joins with a token, or has done so, finds its certificate in its
/// data folder instead.
///
/// # Errors
/// `Invalid` if the settings contradict each other, or a PEM file cannot be used; the text names it.
pub(crate) fn security(settings: &ClusterSettings) -> Result<Security> {
    let ClusterSettings { certificate, key, authorities, tls, .. } = settings;
    let credentials = match (certificate, key, authorities) {
        (Some(certificate), Some(key), Some(authorities)) => {
            Some(Credentials::from_files(certificate, key, authorities)?)
        }
        (None, None, None) | (None, None, Some(_)) => None,
        _ => {
            return Err(Error::invalid(
                "cluster.certificate and cluster.key belong together, and need cluster.authorities: set all three, or none of them",
            ));
        }
    };
    Ok(match (tls, credentials) {
        (Some(TlsMode::Off), _) => Security::Off,
        (_, Some(credentials)) => Security::Tls(credentials),
        (_, None) => Security::LoopbackOnly,
    })
}

/// What issues certificates to nodes that join with a token, if this node is to do that.
///
/// # Errors
/// `Invalid` if a file is missing or cannot be used.
pub(crate) fn authority(settings: &ClusterSettings) -> Result<Option<Arc<Authority>>> {
    let Some(key) = &settings.authority_key else { return Ok(None) };
    let Some(certificate) = &settings.authorities else {
        return Err(Error::invalid(
            "cluster.authority_key is set and cluster.authorities is not, which has the certificate of the authority: set both",
        ));
    };
    let read = |path: &std::path::Path| {
        std::fs::read_to_string(path).or_error_with(ErrorKind::Invalid, || {
            format!("{} cannot be read: check the path and who may read it", path.display())
        })
    };
    let authority = Authority::from_pem(&read(certificate)?, &read(key)?)
        .map_err(|error| error.about(format_args!("{}, {}", certificate.display(), key.display())))?;
    Ok(Some(Arc::new(authority)))
}

/// Refuses a node that was told to use TLS and has no certificate, now that its folder was looked into.
pub(crate) fn check_tls(settings: &ClusterSettings, in_force: &Security) -> Result<()> {
    match (settings.tls, in_force) {
        (Some(TlsMode::On), Security::Tls(_)) | (Some(TlsMode::Off) | None, _) => Ok(()),
        (Some(TlsMode::On), _) => Err(Error::invalid(
            "cluster.tls is \"on\" and this node has no certificate: join with a token (cluster.token), or name PEM files \
             (cluster.certificate, cluster.key, cluster.authorities)",
        )),
    }
}
