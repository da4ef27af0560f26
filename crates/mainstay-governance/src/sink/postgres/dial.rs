//! How connections are made, with or without encryption.

use std::future::Future;
use std::pin::Pin;

use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{CancelToken, Client, Config, Error, Socket};

/// What moves bytes between a client and the server, until the connection ends.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A kind of encryption, or none.
pub(super) trait Dial: Send + Sync {
    /// Connects.
    fn connect(&self, config: Config) -> Boxed<(Client, Driver)>;

    /// Asks the server to give up what a session is doing. That takes a connection, which is no session.
    fn cancel(&self, token: CancelToken) -> Boxed<()>;
}

/// Connects by a kind of encryption.
pub(super) struct By<T>(pub(super) T);

impl<T> Dial for By<T>
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    fn connect(&self, config: Config) -> Boxed<(Client, Driver)> {
        let tls = self.0.clone();
        Box::pin(async move {
            let (client, connection) = config.connect(tls).await?;
            let driver: Driver = Box::pin(async move {
                // What has ended the connection is told to whoever waits for an answer.
                let _ = connection.await;
            });
            Ok((client, driver))
        })
    }

    fn cancel(&self, token: CancelToken) -> Boxed<()> {
        let tls = self.0.clone();
        Box::pin(async move { token.cancel_query(tls).await })
    }
}
