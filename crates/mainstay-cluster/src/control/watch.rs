use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Backoff, Error, ErrorKind, Result, task};
use mainstay_replica::Partition;
use tokio::sync::watch;

use super::state::ControlState;

/// The pauses before the control set is read again after it could not be.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// This node's view of the control state: what its replica of the control set has applied. It may lag behind the primary's.
/// Clones share the view.
#[derive(Debug, Clone)]
pub struct ControlWatch {
    state: watch::Receiver<Arc<ControlState>>,
}

impl ControlWatch {
    /// Follows a replica of the control partition, by a task of the current scope.
    pub fn follow(partition: Partition) -> Self {
        let (sender, state) = watch::channel(Arc::default());
        task::spawn(follow(partition, sender));
        Self { state }
    }

    /// A view that something else keeps up to date.
    pub fn of(state: watch::Receiver<Arc<ControlState>>) -> Self {
        Self { state }
    }

    /// The state as it is known here.
    pub fn get(&self) -> Arc<ControlState> {
        self.state.borrow().clone()
    }

    /// The state as it is known here, which [`changed`](Self::changed) has been told of then.
    pub fn get_and_update(&mut self) -> Arc<ControlState> {
        self.state.borrow_and_update().clone()
    }

    /// Waits until the state is another one than [`get_and_update`](Self::get_and_update) has returned. False when no other will come.
    pub async fn changed(&mut self) -> bool {
        self.state.changed().await.is_ok()
    }

    /// Waits until something is so.
    ///
    /// # Errors
    /// `Fatal` when no other state will come.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&ControlState) -> bool) -> Result<Arc<ControlState>> {
        let found = self.state.wait_for(|state| condition(state)).await;
        let stopped = "the replica of the control set has stopped: see the log for its reason";
        found.map(|state| state.clone()).map_err(|_| Error::fatal(stopped))
    }
}

async fn follow(partition: Partition, sender: watch::Sender<Arc<ControlState>>) {
    let mut retries = RETRY.retries();
    loop {
        let Err(error) = follow_once(&partition, &sender).await else { return };
        match error.kind() {
            // The replica was far behind and has got a state instead of the log: it is read at once.
            ErrorKind::TooOld => retries.reset(),
            // The replica has stopped, and says so in the log itself.
            ErrorKind::Fatal => return,
            _ => tracing::error!(
                error = %error.report(),
                "the control set cannot be followed: this node does not hear of changes of the cluster"
            ),
        }
        time::sleep(retries.pause()).await;
    }
}

/// Follows from a snapshot on, until that fails or nothing looks any more.
async fn follow_once(partition: &Partition, sender: &watch::Sender<Arc<ControlState>>) -> Result<()> {
    let mut state = ControlState::read(&partition.snapshot()?)?;
    let mut changes = partition.changes(state.sequence_number)?;
    publish(sender, &state);
    loop {
        let committed = tokio::select! {
            biased;
            () = sender.closed() => return Ok(()),
            committed = changes.next() => committed?,
        };
        if state.apply(&committed)? {
            publish(sender, &state);
        }
    }
}

fn publish(sender: &watch::Sender<Arc<ControlState>>, state: &ControlState) {
    sender.send_if_modified(|known| {
        let is_news = **known != *state;
        if is_news {
            *known = Arc::new(state.clone());
        }
        is_news
    });
}
