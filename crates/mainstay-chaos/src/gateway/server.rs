use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use tokio::io::BufStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::line;
use crate::action::Answer;
use crate::entry::{EntryPoint, Request, perform};

/// How many connections are served at a time; those beyond wait unaccepted.
const CONNECTIONS_MAX: usize = 512;

/// How long a connection may be silent. A caller that was cut off never says that it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// How long to wait after a connection could not be accepted, such as for want of file handles.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Lets other processes call what an entry reaches.
#[derive(Debug)]
pub struct Gateway {
    listener: TcpListener,
}

impl Gateway {
    /// Takes an address.
    ///
    /// # Errors
    /// `Invalid`, naming it.
    pub async fn bind(address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).await;
        let text = || format!("cannot listen on {address}: give the gateway another address");
        Ok(Self { listener: listener.or_error_with(ErrorKind::Invalid, text)? })
    }

    /// The address, with the port that the system chose if it was to.
    ///
    /// # Errors
    /// `Fatal` if the system does not say.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().or_error(ErrorKind::Fatal, "the system does not say which address it gave")
    }

    /// Serves for as long as it is polled.
    pub async fn serve<E: EntryPoint + Clone + 'static>(self, entry: E) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            // The semaphore is never closed.
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let entry = entry.clone();
                    tokio::spawn(async move {
                        // Who was connected sees that it is over.
                        let _ = serve_connection(stream, &entry).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    eprintln!("the gateway cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, entry: &impl EntryPoint) -> Result<()> {
    stream.set_nodelay(true).or_error(ErrorKind::Retry, "the connection was lost")?;
    let mut stream = BufStream::new(stream);
    loop {
        let read = tokio::time::timeout(SILENCE_MAX, line::read::<Request>(&mut stream)).await;
        let Some(request) = read.or_error(ErrorKind::Timeout, "nothing was asked for too long")?? else {
            return Ok(());
        };
        let reply: std::result::Result<Answer, Error> = perform(entry, &request).await;
        let written = tokio::time::timeout(SILENCE_MAX, line::write(&mut stream, &reply)).await;
        written.or_error(ErrorKind::Timeout, "a reply was not read for too long")??;
    }
}
