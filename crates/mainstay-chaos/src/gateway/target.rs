use std::time::Duration;

use mainstay::prelude::*;
use tokio::io::BufStream;
use tokio::net::TcpStream;

use super::line;
use crate::action::Answer;
use crate::entry::{Request, Target};

/// How long a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// How much longer than a call a reply may take: it is on its way.
const REPLY_SLACK: Duration = Duration::from_secs(2);

/// The gateways of all nodes. A caller stays with one as long as it answers, and goes on to the next when it does not.
#[derive(Debug)]
pub struct Gateways {
    addresses: Vec<String>,
    at: usize,
    connection: Option<BufStream<TcpStream>>,
}

impl Clone for Gateways {
    fn clone(&self) -> Self {
        Self { addresses: self.addresses.clone(), at: self.at, connection: None }
    }
}

impl Gateways {
    /// Gateways at these addresses, hosts with ports.
    ///
    /// # Errors
    /// `Invalid` if there are none.
    pub fn new(addresses: Vec<String>) -> Result<Self> {
        if addresses.is_empty() {
            return Err(Error::invalid("there is no gateway to call: name at least one, as HOST:PORT"));
        }
        Ok(Self { addresses, at: 0, connection: None })
    }

    /// The same, beginning with another one: callers are spread over all nodes.
    #[must_use]
    pub fn starting_at(mut self, number: usize) -> Self {
        self.at = number % self.addresses.len();
        self
    }

    async fn connect(&self) -> Result<BufStream<TcpStream>> {
        let address = &self.addresses[self.at];
        let text = || format!("{address} cannot be reached: nothing was sent");
        let connecting = tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await;
        let stream = connecting.or_error_with(ErrorKind::Retry, text)?.or_error_with(ErrorKind::Retry, text)?;
        stream.set_nodelay(true).or_error_with(ErrorKind::Retry, text)?;
        Ok(BufStream::new(stream))
    }
}

impl Target for Gateways {
    async fn call(&mut self, request: &Request) -> Result<Answer> {
        let connection = match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.connect().await,
        };
        let mut connection = match connection {
            Ok(connection) => connection,
            Err(error) => {
                self.at = (self.at + 1) % self.addresses.len();
                return Err(error);
            }
        };
        let exchange = async {
            line::write(&mut connection, request).await?;
            line::read::<std::result::Result<Answer, Error>>(&mut connection).await
        };
        let lost = match tokio::time::timeout(request.time_limit() + REPLY_SLACK, exchange).await {
            Ok(Ok(Some(reply))) => {
                self.connection = Some(connection);
                return reply;
            }
            Ok(Ok(None)) => Error::new(ErrorKind::OutcomeUnknown, "the connection was closed before the reply"),
            Ok(Err(error)) => Error::new(ErrorKind::OutcomeUnknown, "there was no reply").with_source(error),
            Err(_) => Error::new(ErrorKind::OutcomeUnknown, "there was no reply in time"),
        };
        // What comes on it later would be taken for the reply of the next call.
        self.at = (self.at + 1) % self.addresses.len();
        Err(lost)
    }
}
