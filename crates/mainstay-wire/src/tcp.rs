//! TCP, as production has it.

use std::net::SocketAddr;
use std::time::Duration;

use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, OrError as _, Result};
use tokio::net::{TcpListener, TcpStream, lookup_host};

use crate::address::Address;
use crate::stream::{Connecting, Connection, Dial, Listen};

/// How many addresses of one name are tried at a dial.
const ADDRESSES_MAX: usize = 16;

/// How long one address of a name with several may take. A dead one must not use up the time of the others.
const ADDRESS_TIME_MAX: Duration = Duration::from_millis(1000);

/// How long the system is left alone after it could not accept, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Dials TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpDial;

/// Listens on TCP.
#[derive(Debug)]
pub struct TcpListen {
    listener: TcpListener,
    address: Address,
    is_loopback: bool,
}

impl Dial for TcpDial {
    fn dial<'a>(&'a self, address: &'a Address) -> Connecting<'a> {
        Box::pin(async move {
            let unreachable = || format!("{address} cannot be reached");
            let found = lookup_host((address.host(), address.port())).await;
            let found =
                found.or_error_with(ErrorKind::Retry, || format!("the name of {address} cannot be resolved"))?;
            let mut failure = None;
            for remote in found.take(ADDRESSES_MAX) {
                match time::timeout(ADDRESS_TIME_MAX, TcpStream::connect(remote)).await {
                    Ok(Ok(stream)) => return connection(stream, remote),
                    Ok(Err(error)) => {
                        failure = Some(Error::new(ErrorKind::Retry, unreachable()).with_source(error));
                    }
                    Err(_) => {
                        let text = format!("{remote} did not answer within {ADDRESS_TIME_MAX:?}");
                        failure = Some(Error::new(ErrorKind::Retry, unreachable()).with_source(text));
                    }
                }
            }
            Err(failure
                .unwrap_or_else(|| Error::new(ErrorKind::Retry, format!("the name of {address} has no address"))))
        })
    }
}

impl TcpListen {
    /// Listens at an address; port 0 chooses one.
    ///
    /// # Errors
    /// `Invalid` if the name is not one of this machine, or the port is in use.
    pub async fn bind(address: &Address) -> Result<Self> {
        let failed = || format!("cannot listen at {address}: choose a free port of this machine");
        let listener = TcpListener::bind((address.host(), address.port())).await;
        let listener = listener.or_error_with(ErrorKind::Invalid, failed)?;
        let bound = listener.local_addr().or_error_with(ErrorKind::Invalid, failed)?;
        let address = bound.to_string().parse()?;
        Ok(Self { listener, address, is_loopback: is_loopback(bound) })
    }
}

impl Listen for TcpListen {
    fn accept(&mut self) -> Connecting<'_> {
        Box::pin(async move {
            loop {
                match self.listener.accept().await {
                    Ok((stream, remote)) => {
                        if let Ok(connection) = connection(stream, remote) {
                            return Ok(connection);
                        }
                    }
                    Err(error) => {
                        tracing::warn!(address = %self.address, %error, "a connection could not be accepted");
                        time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        })
    }

    fn address(&self) -> &Address {
        &self.address
    }

    fn is_loopback(&self) -> bool {
        self.is_loopback
    }
}

fn connection(stream: TcpStream, remote: SocketAddr) -> Result<Connection> {
    // Frames are gathered before they are written; what is written is to leave.
    stream.set_nodelay(true).or_error_with(ErrorKind::Retry, || format!("the connection to {remote} is gone"))?;
    Ok(Connection { stream: Box::new(stream), remote: remote.to_string(), is_loopback: is_loopback(remote) })
}

/// An IPv4 address may come as a part of the IPv6 range.
fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn a_name_is_resolved_and_bytes_go_both_ways() {
        let mut listen = TcpListen::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        assert!(listen.is_loopback());
        let address: Address = format!("localhost:{}", listen.address().port()).parse().unwrap();
        let (dialed, accepted) = tokio::join!(TcpDial.dial(&address), listen.accept());
        let (mut dialed, mut accepted) = (dialed.unwrap(), accepted.unwrap());
        assert!(dialed.is_loopback && accepted.is_loopback);
        dialed.stream.write_all(b"ping").await.unwrap();
        let mut bytes = [0; 4];
        accepted.stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
    }

    #[tokio::test]
    async fn errors_name_the_address() {
        let free = TcpListen::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap().address().clone();
        let error = TcpDial.dial(&free).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry);
        assert!(error.to_string().contains(&free.to_string()), "{error}");
        let error = TcpListen::bind(&"192.0.2.1:1".parse().unwrap()).await.unwrap_err();
        assert!(error.to_string().contains("192.0.2.1:1"), "{error}");
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (address, expected) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("10.0.0.1:1", false),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
        ] {
            assert_eq!(is_loopback(address.parse().unwrap()), expected, "{address}");
        }
    }
}
