use std::sync::Arc;

use mainstay_core::{Error, Result};

use super::credentials::Credentials;

/// How connections are protected.
#[derive(Debug, Clone, Default)]
pub enum Security {
    /// TLS 1.3, with certificates on both ends: who sends is who the certificate says.
    Tls(Arc<Credentials>),
    /// No TLS, and no connection that leaves this machine: for one machine, and for tests.
    #[default]
    LoopbackOnly,
    /// No TLS, wherever the peer is: whoever reaches the port is who it says it is. Only by a setting that says so in so many
    /// words.
    Off,
}

impl Security {
    /// What a setting says, where there are credentials and where there are none. `"off"` is the one text that lets a connection
    /// leave the machine without TLS.
    ///
    /// # Errors
    /// `Invalid` for another text, and for `"on"` without credentials.
    pub fn from_setting(text: Option<&str>, credentials: Option<Arc<Credentials>>) -> Result<Self> {
        match (text, credentials) {
            (Some("off"), _) => Ok(Self::Off),
            (None | Some("on"), Some(credentials)) => Ok(Self::Tls(credentials)),
            (None, None) => Ok(Self::LoopbackOnly),
            (Some("on"), None) => {
                Err(Error::invalid("tls = \"on\" needs a certificate: join with a token, or name PEM files"))
            }
            (Some(other), _) => Err(Error::invalid(format!("tls = {other:?} is not known: use \"on\" or \"off\""))),
        }
    }

    /// May a connection be used that goes there?
    pub(crate) fn check(&self, place: &str, is_loopback: bool) -> Result<()> {
        if is_loopback || !matches!(self, Security::LoopbackOnly) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{place} is not this machine, and there is no TLS: give the process a certificate, or set tls = \"off\" if everybody \
             who reaches the port may be anybody"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_off_lets_plain_bytes_leave_the_machine() {
        for text in [None, Some("off")] {
            let security = Security::from_setting(text, None).unwrap();
            assert!(security.check("127.0.0.1:1", true).is_ok());
            assert_eq!(security.check("10.0.0.5:1", false).is_ok(), text.is_some());
        }
        for wrong in ["", "OFF", "false", "no", "on"] {
            assert!(Security::from_setting(Some(wrong), None).is_err(), "{wrong:?}");
        }
        let error = Security::default().check("10.0.0.5:1", false).unwrap_err();
        assert!(error.to_string().contains("tls = \"off\""), "{error}");
    }
}
