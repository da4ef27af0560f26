//! Removing entries whose time has come.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use mainstay_core::time::{self, Duration, WallTime};
use mainstay_core::{ErrorKind, Result, task};
use mainstay_replica::{Key, KeyRange, Order, Snapshot, prefix_successor};
use tokio::sync::Notify;

use crate::layout::{self, ENTRY_PREFIX_BYTES};
use crate::lock::LockMode;
use crate::manager::{Shared, StateManager};
use crate::transaction::Ending;

/// How many entries are removed with one commit.
const REMOVED_AT_ONCE_MAX: usize = 256;
/// How long to wait before those are tried again that somebody has locked, and after a failed commit.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How long to wait at most before looking again: the wall clock may be set.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Wakes the one who removes what has expired.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    /// Something that expires was committed, or the state is closed.
    changed: Notify,
    running: AtomicBool,
}

/// An entry that expires is committed with the transaction.
pub(crate) struct Expires {
    pub(crate) shared: Arc<Shared>,
}

impl Ending for Expires {
    fn committed(self: Box<Self>) {
        self.shared.expiry.changed.notify_one();
        start(&self.shared);
    }

    fn undone(self: Box<Self>) {}
}

/// Goes on with removing if the partition has entries that expire.
pub(crate) fn resume(state: &StateManager, snapshot: &Snapshot) -> Result<()> {
    if layout::scan(snapshot, layout::EXPIRIES_PREFIX)?.next().transpose()?.is_some() {
        start(&state.shared);
    }
    Ok(())
}

fn start(shared: &Arc<Shared>) {
    if !shared.expiry.running.swap(true, Ordering::AcqRel) {
        let running = Running(shared.expiry.clone());
        task::spawn(run(Arc::downgrade(shared), running));
    }
}

/// Held by the one who removes what has expired. If its task is stopped, the next who commits something that expires
/// starts another.
struct Running(Arc<Expiry>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.expiry.changed.notify_one();
    }
}

/// Removes what has expired until the state is closed, or another one is primary.
async fn run(shared: Weak<Shared>, running: Running) {
    loop {
        let Some(state) = shared.upgrade().map(|shared| StateManager { shared }) else { return };
        let pause = match sweep(&state).await {
            Ok(pause) => pause,
            Err(error) if matches!(error.kind(), ErrorKind::NotPrimary { .. } | ErrorKind::OutcomeUnknown) => return,
            Err(error) => {
                tracing::warn!(partition = %state.shared.partition.id(), %error, "expired entries could not be removed");
                RETRY_PAUSE
            }
        };
        drop(state);
        _ = time::timeout(pause, running.0.changed.notified()).await;
    }
}

/// Removes what has expired, and says how long there is nothing more to do.
async fn sweep(state: &StateManager) -> Result<Duration> {
    loop {
        let now = time::wall();
        let found = look(&state.shared.read()?, now)?;
        let removed = remove(state, &found.due).await?;
        if found.due.is_empty() {
            return Ok(found
                .next
                .map_or(LOOK_PAUSE_MAX, |next| next.saturating_duration_since(now).min(LOOK_PAUSE_MAX)));
        }
        if removed == 0 {
            return Ok(RETRY_PAUSE);
        }
    }
}

struct Found {
    /// The places of entries that have expired.
    due: Vec<Bytes>,
    /// When the first of the others does.
    next: Option<WallTime>,
}

/// Finds what has expired, in every collection.
fn look(snapshot: &Snapshot, now: WallTime) -> Result<Found> {
    let mut found = Found { due: Vec::new(), next: None };
    let mut range = KeyRange::prefix(layout::EXPIRIES_PREFIX);
    while found.due.len() < REMOVED_AT_ONCE_MAX {
        let mut collection = None;
        for place in snapshot.scan(range.clone(), Order::Ascending)? {
            let (place, _) = place?;
            let prefix = place.slice(..ENTRY_PREFIX_BYTES.min(place.len()));
            if *collection.get_or_insert_with(|| prefix.clone()) != prefix {
                break;
            }
            match layout::parse_expiry(&place) {
                Some((at, _)) if at > now => {
                    found.next = Some(found.next.map_or(at, |next| next.min(at)));
                    break;
                }
                // What is no such place does not belong here, and is removed too.
                _ => found.due.push(place),
            }
            if found.due.len() == REMOVED_AT_ONCE_MAX {
                return Ok(found);
            }
        }
        // On to the next collection.
        let Some(after) = collection.and_then(|prefix| prefix_successor(&prefix)) else { break };
        range.start = std::ops::Bound::Included(after.into());
    }
    Ok(found)
}

/// Removes the entries of these places that nobody has locked; says how many.
async fn remove(state: &StateManager, places: &[Bytes]) -> Result<usize> {
    let mut tx = state.begin();
    let mut removed = 0;
    for place in places {
        let Some((at, key)) = layout::parse_expiry(place) else {
            tx.put_record(Key::from(&place[..]), None);
            removed += 1;
            continue;
        };
        let Some(id) = layout::collection_of(&key) else { continue };
        if !tx.try_lock(&layout::length(id), LockMode::Shared)? || !tx.try_lock(&key, LockMode::Exclusive)? {
            continue;
        }
        match tx.opaque_entry(&key)? {
            Some(stored) if stored.expires() == Some(at) => tx.writes.put(key, Some(stored), None)?,
            // It was replaced, or removed.
            _ => tx.put_record(Key::from(&place[..]), None),
        }
        removed += 1;
    }
    if removed > 0 {
        tx.commit().await?;
    }
    Ok(removed)
}
