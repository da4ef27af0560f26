use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_core::{Error, ErrorKind, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::page::answer;
use crate::driver::with_driver;
use crate::node::Inner;

/// How many connections are served at a time. Those beyond wait unaccepted; a scraper and a few people need a handful.
const CONNECTIONS_MAX: usize = 32;

/// How long the head of a request may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection is served, whatever it does: a reader that does not read holds one of few places.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// How large the head of a request may be.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// How long to wait after a connection could not be accepted, such as for want of file handles.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A server for operators, on its own address.
#[derive(Debug)]
pub(crate) struct Admin {
    address: SocketAddr,
    scope: Scope,
}

/// Takes an address.
///
/// # Errors
/// `Conflict` if another process has it, `Invalid` if this machine does not.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener> {
    let bound = with_driver("the admin address needs sockets", "enable_io", TcpListener::bind(address)).await?;
    bound.map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::AddrInUse => ErrorKind::Conflict,
            _ => ErrorKind::Invalid,
        };
        let text = format!("cannot listen on the admin address {address}: give admin.address another one");
        Error::new(kind, text).with_source(error)
    })
}

impl Admin {
    /// Serves on an address that was taken.
    ///
    /// # Errors
    /// `Fatal` if the operating system does not say which it is.
    pub(crate) fn serve(listener: TcpListener, node: Weak<Inner>) -> Result<Self> {
        let address = listener
            .local_addr()
            .map_err(|error| Error::fatal("the system does not say which admin address it gave").with_source(error))?;
        let scope = Scope::new();
        drop(scope.spawn(accept(listener, node, scope.clone())));
        Ok(Self { address, scope })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the address and all connections.
    pub(crate) fn stop(&self) {
        self.scope.stop();
    }
}

async fn accept(listener: TcpListener, node: Weak<Inner>, scope: Scope) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let node = node.clone();
                let connection = async move {
                    let served = time::timeout(CONNECTION_TIMEOUT, serve(stream, node)).await;
                    if let Ok(Err(error)) = served {
                        tracing::debug!(%error, "a connection to the admin address ended");
                    }
                    drop(place);
                };
                drop(scope.spawn(connection));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the admin address");
                time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, node: Weak<Inner>) -> Result<(), hyper::Error> {
    let service = service_fn(|request| {
        let response = answer(&node, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        // A client that has said all it wants to say may close its side and still gets its answer.
        .half_close(true)
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
