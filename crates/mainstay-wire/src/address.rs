use std::fmt;
use std::str::FromStr;

use mainstay_core::{Error, Result};

/// The longest name that the domain name system has, a colon and a port.
const BYTES_MAX: usize = 253 + 1 + 5;

/// Where a node listens: a name or an IP address, and a port. A name is resolved at each dial, so that a node may move.
///
/// ```
/// use mainstay_wire::Address;
///
/// let address: Address = "node-1.example:7400".parse()?;
/// assert_eq!((address.host(), address.port()), ("node-1.example", 7400));
/// assert!("node-1.example".parse::<Address>().is_err());
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// The name or IP address, the latter of version 6 without its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::invalid(format!("{text:?} is no address: {why}; write host:port, such as 10.0.0.5:7400"))
        };
        if text.len() > BYTES_MAX {
            return Err(Error::invalid(format!(
                "an address has at most {BYTES_MAX} bytes, and this one has {}",
                text.len()
            )));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| bad("it has no port"))?;
        let port = port.parse().map_err(|_| bad("its port is no number from 0 to 65535"))?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or_else(|| bad("a bracket is not closed"))?;
                inner.parse::<std::net::Ipv6Addr>().map_err(|_| bad("no IPv6 address is in its brackets"))?;
                inner
            }
            None if host.contains(':') => return Err(bad("an IPv6 address needs brackets")),
            None => host,
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        if host.is_empty() || !host.chars().all(allowed) {
            return Err(bad("its host is empty or has characters that no host has"));
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_it_was_read() {
        for text in ["10.0.0.5:7400", "localhost:0", "a-b.c_d:65535", "[::1]:7400"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("[::1]:1".parse::<Address>().unwrap().host(), "::1");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let long = format!("{}:1", "a".repeat(300));
        for (text, why) in [
            ("", "no port"),
            ("host", "no port"),
            ("host:", "no number"),
            ("host:65536", "no number"),
            (":1", "empty"),
            ("ho st:1", "characters"),
            ("::1:1", "brackets"),
            ("[::1:1", "closed"),
            ("[host]:1", "no IPv6"),
            (&long, "at most"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.to_string().contains(why), "{text:?}: {error}");
        }
    }
}
