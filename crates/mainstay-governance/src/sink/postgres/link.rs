//! One connection, which ends with whoever holds it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, Socket};

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;
type Connected = Result<(Client, Driver), tokio_postgres::Error>;

/// How connections are made, with or without encryption.
pub(super) type Connector = Arc<dyn Fn(Config) -> Pin<Box<dyn Future<Output = Connected> + Send>> + Send + Sync>;

/// Connects by a kind of encryption.
pub(super) fn connector<T>(tls: T) -> Connector
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    Arc::new(move |config| {
        let tls = tls.clone();
        Box::pin(async move {
            let (client, connection) = config.connect(tls).await?;
            let driver: Driver = Box::pin(async move {
                // What has ended the connection is told to whoever waits for an answer.
                let _ = connection.await;
            });
            Ok((client, driver))
        })
    })
}

/// A session on the server. When dropped it is cut off, and the server notices as soon as it has nothing else to do.
pub(super) struct Link {
    pub(super) client: Client,
    driver: JoinHandle<()>,
}

impl Link {
    pub(super) async fn open(connector: &Connector, config: Config) -> Result<Self, tokio_postgres::Error> {
        let (client, driver) = connector(config).await?;
        Ok(Self { client, driver: tokio::spawn(driver) })
    }

    /// Ends the session, and returns when the server has let go of it: then it counts no more among its connections.
    pub(super) async fn close(mut self) {
        // To take leave and hang up would be answered by nothing. This way the server hangs up, after it has struck the
        // session from its list; the driver sees that, and whatever has gone wrong before is the end of it too.
        let _ = self.client.batch_execute("SELECT pg_terminate_backend(pg_backend_pid())").await;
        let _ = (&mut self.driver).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
