//! One connection, which ends with its holder.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join3;
use mainstay::{Error, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{Client, Config};

use super::dial::{Dial, Driver};
use super::door::{Door, Leaving};

/// How long a session that nobody uses any more may take to go before it is cut off: a server that does not answer, or a
/// connection that is not made.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(30);

/// How long to wait before a statement that keeps a session from going is cancelled once more.
const CANCEL_AGAIN: Duration = Duration::from_secs(1);

/// To take leave and hang up would be answered by nothing. This way the server hangs up: its process says that it ends, strikes the
/// session from its list, and ends, and with it the connection. Nothing earlier than that is a sign that the session is gone.
const LEAVE: &str = "ROLLBACK; SELECT pg_terminate_backend(pg_backend_pid())";

/// A session on the server. When dropped it goes in order, in a task of its own, and [`Door::clear`] says when it is gone.
///
/// Nobody looks after the connection but whoever waits for an answer: a task of its own would have to be woken to send each
/// request, and would have to wake whoever waits for each answer. What the server says in between, such as that it goes down,
/// is read before the next request is sent.
pub(super) struct Link {
    pub(super) client: Arc<Client>,
    wire: Arc<Wire>,
    /// Something was begun with the client and has not come to its end: what the server is doing now is not known.
    is_busy: AtomicBool,
    dial: Arc<dyn Dial>,
    place: SessionOwner,
}

/// Whose a session is.
#[derive(Clone)]
pub(super) struct SessionOwner {
    pub(super) door: Arc<Door>,
    pub(super) key: String,
}

impl SessionOwner {
    fn leave(&self) -> Leaving {
        self.door.leave(&self.key)
    }
}

impl Link {
    /// Connects. If this is dropped, the session that comes of it leaves.
    pub(super) async fn open(
        dial: &Arc<dyn Dial>,
        config: Config,
        place: SessionOwner,
        failed: impl Fn(tokio_postgres::Error) -> Error,
    ) -> Result<Self> {
        let (sender, link) = oneshot::channel();
        let mut opening = Opening { place: Some(place.clone()), given_up: Arc::default() };
        // In a task of its own, because nobody knows how far the server has come with a connection that is not waited for.
        drop(tokio::spawn(connect(dial.clone(), config, place, sender, opening.given_up.clone())));
        let connected =
            link.await.map_err(|cut_short| Error::fatal("connecting was cut short").with_source(cut_short))?;
        opening.place = None;
        connected.map_err(failed)
    }

    /// Does something with the client, and moves what is said to the server and back meanwhile.
    pub(super) async fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        self.is_busy.store(true, Ordering::Relaxed);
        let output = self.wire.drive(work).await;
        self.is_busy.store(false, Ordering::Relaxed);
        output
    }

    /// Ends the session, and returns when the server has let go of it: then it counts no more among its connections.
    pub(super) async fn close(self) {
        let SessionOwner { door, key } = self.place.clone();
        drop(self);
        door.clear(&key).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Without a runtime it is cut off, and the server notices as soon as it has nothing else to do.
        if let (false, Ok(runtime)) = (self.wire.has_ended(), Handle::try_current()) {
            let (client, wire, dial) = (self.client.clone(), self.wire.clone(), self.dial.clone());
            drop(runtime.spawn(leave(client, wire, dial, *self.is_busy.get_mut(), self.place.leave())));
        }
    }
}

/// A connection that is being made. If it is dropped, what comes of it is on its way out.
struct Opening {
    /// `None` once it has been made.
    place: Option<SessionOwner>,
    given_up: GivenUp,
}

/// There from when a connection that is being made is not waited for any more until that has come to an end.
type GivenUp = Arc<Mutex<Option<Leaving>>>;

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            *self.given_up.lock() = Some(place.leave());
        }
    }
}

type Opened = Result<Link, tokio_postgres::Error>;

async fn connect(
    dial: Arc<dyn Dial>,
    config: Config,
    place: SessionOwner,
    mut waiting: oneshot::Sender<Opened>,
    _given_up: GivenUp,
) {
    let connected = tokio::select! {
        connected = dial.connect(config) => connected,
        () = async { waiting.closed().await; sleep(LEAVE_TIME_MAX).await } => return,
    };
    let opened = connected.map(|(client, driver)| {
        let (client, wire) = (Arc::new(client), Arc::new(Wire(Mutex::new(Some(driver)))));
        Link { client, wire, is_busy: AtomicBool::new(false), dial, place }
    });
    // A link that nobody takes leaves.
    drop(waiting.send(opened));
}

/// Sees a session out.
async fn leave(client: Arc<Client>, wire: Arc<Wire>, dial: Arc<dyn Dial>, is_busy: bool, _leaving: Leaving) {
    let token = client.cancel_token();
    let going = async {
        let is_ending = loop {
            let said = wire.drive(join3(ask_to_leave(&client), ask_to_leave(&client), ask_to_leave(&client))).await;
            match judge([said.0, said.1, said.2]) {
                Some(is_ending) => break is_ending,
                // Meant for what the session was doing before, and late.
                None => continue,
            }
        };
        if is_ending {
            // The client is kept until then: without it the connection would be cut on this side.
            wire.ended().await;
        }
        // Takes leave of a server that lets nobody end its own session. Nobody says when that is gone.
        drop(client);
        wire.ended().await;
    };
    let cancelling = async {
        if !is_busy {
            return pending::<()>().await;
        }
        loop {
            // If it does not arrive, it is sent again.
            let _ = dial.cancel(token.clone()).await;
            sleep(CANCEL_AGAIN).await;
        }
    };
    let gone = async {
        tokio::select! {
            () = going => {}
            () = cancelling => {}
        }
    };
    if timeout(LEAVE_TIME_MAX, gone).await.is_err() {
        tracing::warn!("a session did not leave PostgreSQL within {LEAVE_TIME_MAX:?} and was cut off");
    }
}

/// What became of a request to end the session.
enum Said {
    /// Nothing: the answer was to something before, or the session goes on.
    Nothing,
    /// It was cancelled in the place of what the session was doing before.
    Cancelled,
    /// The server lets nobody end its own session.
    Refused,
    /// The session ends, or has ended.
    Ending,
}

/// Asks the server to end the session. That is done three times at once: a session whose `COPY` was given up while it waited
/// answers once more than it was asked, so that each answer is taken for that of the request behind it; and the last request would
/// be left without one, which the client takes for a broken connection and cuts it on this side.
async fn ask_to_leave(client: &Client) -> Said {
    match client.batch_execute(LEAVE).await {
        Ok(()) => Said::Nothing,
        Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => Said::Cancelled,
        // What is refused leaves the session as it was. All else is said by a process that ends.
        Err(error) => match error.as_db_error().and_then(|error| error.parsed_severity()) {
            Some(Severity::Error) => Said::Refused,
            _ => Said::Ending,
        },
    }
}

/// Whether the session is about to end; `None` if it is to be asked again.
fn judge(said: [Said; 3]) -> Option<bool> {
    if said.iter().any(|said| matches!(said, Said::Ending)) {
        return Some(true);
    }
    if said.iter().any(|said| matches!(said, Said::Refused)) {
        return Some(false);
    }
    said.iter().all(|said| matches!(said, Said::Nothing)).then_some(true)
}

/// The way to the server; empty once the connection has ended. In a lock so that it can be shared; nobody ever waits for it.
struct Wire(Mutex<Option<Driver>>);

impl Wire {
    async fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            let _ = self.poll(cx);
            // What has come just now.
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Returns when the connection has ended.
    async fn ended(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    fn has_ended(&self) -> bool {
        self.0.lock().is_none()
    }

    /// Sends what is to be sent and reads what has come. Ready once the connection has ended.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut driver = self.0.lock();
        if driver.as_mut().is_some_and(|driver| Pin::as_mut(driver).poll(cx).is_ready()) {
            // With it goes what anybody still waits for.
            *driver = None;
        }
        if driver.is_none() { Poll::Ready(()) } else { Poll::Pending }
    }
}
