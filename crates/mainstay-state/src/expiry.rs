//! Removing entries whose time has come.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use mainstay_core::time::{self, Duration, WallTime};
use mainstay_core::{ErrorKind, Result};
use mainstay_replica::{Key, KeyRange, Order, Snapshot, prefix_successor};
use tokio::sync::Notify;

use crate::layout::{self, ENTRY_PREFIX_BYTES};
use crate::lock::LockMode;
use crate::manager::{Shared, StateManager};
use crate::transaction::{Ending, Transaction};

/// How many entries are removed with one commit.
const REMOVED_AT_ONCE_MAX: usize = 256;
/// How many entries that cannot be removed are told of.
const TOLD_MAX: usize = 256;
/// How long to wait before those are tried again that somebody has locked, after a failed commit, and while this is not the
/// primary.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How often the wall clock is looked at again while something waits to expire: it may be set.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

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
        // Not with whoever has committed, who may end earlier.
        shared.home.spawn(run(Arc::downgrade(shared), running));
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

/// Removes what has expired until the state is closed, or there is another epoch.
async fn run(shared: Weak<Shared>, running: Running) {
    let mut told = BTreeSet::new();
    loop {
        let Some(state) = shared.upgrade().map(|shared| StateManager { shared }) else { return };
        let pause = match sweep(&state, &mut told).await {
            Ok(pause) => pause,
            Err(_) if state.shared.is_over() => return,
            // The same primary may go on.
            Err(error) if matches!(error.kind(), ErrorKind::NotPrimary { .. }) => Some(RETRY_PAUSE),
            Err(error) => {
                tracing::warn!(partition = %state.shared.partition.id(), %error, "expired entries could not be removed");
                Some(RETRY_PAUSE)
            }
        };
        let session = state.shared.session.clone();
        drop(state);
        let due = async {
            match pause {
                Some(pause) => tokio::select! {
                    () = time::sleep(pause) => {}
                    () = time::wall_set(LOOK_AGAIN) => {}
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            () = running.0.changed.notified() => {}
            () = session.ended() => return,
        }
    }
}

/// Removes what has expired, and says how long there is nothing more to do; `None` if nothing is left that expires.
async fn sweep(state: &StateManager, told: &mut BTreeSet<Bytes>) -> Result<Option<Duration>> {
    let now = time::wall();
    let mut pause = None;
    let mut no_later_than = |limit: Duration| pause = Some(pause.map_or(limit, |pause: Duration| pause.min(limit)));
    let mut range = KeyRange::prefix(layout::EXPIRIES_PREFIX);
    loop {
        let found = look(&state.shared.read()?, now, range.clone())?;
        if let Some(next) = found.next {
            no_later_than(next.saturating_duration_since(now));
        }
        let done = remove(state, &found.due, told).await?;
        if done.are_locked {
            no_later_than(RETRY_PAUSE);
        }
        // What could not be removed is passed over: it stops nobody else's removal.
        let Some(last) = done.places.checked_sub(1).and_then(|last| found.due.get(last)) else { return Ok(pause) };
        range.start = std::ops::Bound::Excluded(last.clone());
    }
}

struct Found {
    /// The places of entries that have expired.
    due: Vec<Bytes>,
    /// When the first of the others does.
    next: Option<WallTime>,
}

/// Finds what has expired among some places, in every collection.
fn look(snapshot: &Snapshot, now: WallTime, mut range: KeyRange) -> Result<Found> {
    let mut found = Found { due: Vec::new(), next: None };
    loop {
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
        let Some(after) = collection.and_then(|prefix| prefix_successor(&prefix)) else { return Ok(found) };
        range.start = std::ops::Bound::Included(after.into());
    }
}

/// What became of some places.
#[derive(Default)]
struct Done {
    /// How many were dealt with, from the first on.
    places: usize,
    /// Some of them are left because somebody has locked them.
    are_locked: bool,
}

/// Removes the entries of these places that nobody has locked, as many from the first on as one transaction can take.
async fn remove(state: &StateManager, places: &[Bytes], told: &mut BTreeSet<Bytes>) -> Result<Done> {
    let mut tx = state.begin();
    let mut done = Done::default();
    for place in places {
        match remove_one(&mut tx, place) {
            Ok(Removal::Noted) => {}
            Ok(Removal::Locked) => done.are_locked = true,
            // The rest goes with the next one, into which the largest entry fits.
            Err(error) if error.kind() == ErrorKind::TooLarge && !tx.writes.is_empty() => break,
            Err(error) if matches!(error.kind(), ErrorKind::NotPrimary { .. }) => return Err(error),
            Err(error) => {
                // Once for each, as far as they can be remembered: they are met at every look.
                if told.len() < TOLD_MAX && told.insert(place.clone()) {
                    let partition = state.shared.partition.id();
                    tracing::warn!(%partition, %error, "an expired entry could not be removed, and is left");
                }
            }
        }
        done.places += 1;
    }
    if !tx.writes.is_empty() {
        tx.commit_own().await?;
    }
    Ok(done)
}

enum Removal {
    Noted,
    Locked,
}

/// Notes in a transaction that an entry is removed, by its place.
fn remove_one(tx: &mut Transaction, place: &[u8]) -> Result<Removal> {
    let Some((at, key)) = layout::parse_expiry(place) else {
        tx.put_record(Key::from(place), None)?;
        return Ok(Removal::Noted);
    };
    // The key was made of an entry's prefix.
    let Some(id) = layout::collection_of(&key) else { return Ok(Removal::Noted) };
    if !tx.try_lock(&layout::length(id), LockMode::Shared)? || !tx.try_lock(&key, LockMode::Exclusive)? {
        return Ok(Removal::Locked);
    }
    match tx.opaque_entry(&key)? {
        Some(stored) if stored.expires() == Some(at) => tx.writes.put(key, Some(stored), None)?,
        // It was replaced, or removed.
        _ => tx.put_record(Key::from(place), None)?,
    }
    Ok(Removal::Noted)
}
