//! What keeps the folder in order beside the writing: segments that are not needed are removed, entries that pin an
//! old segment are moved out of it, and the next segment is zeroed ahead of its use.

use std::sync::Arc;

use bytes::Bytes;

use super::file::Segment;
use super::index::Position;
use super::io_error::io_error;
use super::record::MOVED_HEADER_BYTES;
use super::shared::LogCore;
use super::space::LOOK_INTERVAL;
use crate::log::GroupId;

/// How many bytes are moved with one batch, unless one entry has more.
const MOVE_BYTES_MAX: usize = 256 << 10;

/// Works until the log is closed or has failed.
pub(super) fn run_thread(shared: &LogCore) {
    loop {
        let (has_changed, looks) = {
            let mut state = shared.state.lock();
            while !state.keep && !state.fill && !state.look && !state.closed && state.failure.is_none() {
                // Nobody may write while there is little room: it is looked for then.
                if shared.space.is_low() {
                    let is_due = shared.keeping.wait_for(&mut state, LOOK_INTERVAL).timed_out();
                    state.look |= is_due;
                } else {
                    shared.keeping.wait(&mut state);
                }
            }
            if state.closed || state.failure.is_some() {
                return;
            }
            state.fill = false;
            (state.keep, state.look)
        };
        if has_changed {
            tend(shared);
        }
        if has_changed || looks {
            shared.look();
        }
        fill_spare(shared);
    }
}

/// Removes and moves what there is to remove and move.
pub(super) fn tend(shared: &LogCore) {
    shared.state.lock().keep = false;
    remove_dead(shared);
    move_out(shared);
}

/// Removes segments, the oldest first and each durably before the next: after a crash no file in between is missing.
fn remove_dead(shared: &LogCore) {
    loop {
        let segment = {
            let state = shared.state.lock();
            if state.failure.is_some() {
                return;
            }
            let durable = state.durable_lsn;
            let Some((number, _)) = state.dead.front().filter(|(_, lsn)| *lsn <= durable) else { return };
            let Some(segment) = state.segments.get(number) else { return };
            Arc::clone(segment)
        };
        match shared.disk.remove(&segment.path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                // It stays listed, and is tried again when the next block is durable.
                tracing::warn!(path = %segment.path.display(), %error, "cannot remove a node log file");
                return;
            }
        }
        if let Err(error) = shared.disk.sync_dir(&shared.dir) {
            return shared.fail(&io_error("sync", &shared.dir, error));
        }
        let mut state = shared.state.lock();
        state.dead.pop_front();
        state.segments.remove(&segment.number);
    }
}

/// Moves what is left in the oldest segment to the newest, if the log is over its size and mostly waste.
fn move_out(shared: &LogCore) {
    let (segment, entries): (Arc<Segment>, Vec<(GroupId, u64, Position)>) = {
        let state = shared.state.lock();
        if !state.is_wasteful(&shared.options) {
            return;
        }
        let dead = state.dead.back().map_or(0, |(number, _)| *number);
        let Some((_, oldest)) = state.segments.range(dead + 1..).next() else { return };
        if oldest.number == state.active().number {
            return;
        }
        (Arc::clone(oldest), state.index.entries_in(oldest.number).collect())
    };
    let bytes_max = MOVE_BYTES_MAX.min(shared.options.batch_bytes_max);
    let mut batch: Vec<Moving> = Vec::new();
    let mut bytes = 0;
    for (group, index, position) in entries {
        let needed = MOVED_HEADER_BYTES + position.len as usize;
        if bytes + needed > bytes_max && !batch.is_empty() && !move_batch(shared, &mut batch) {
            return;
        }
        bytes = if batch.is_empty() { needed } else { bytes + needed };
        match segment.read(&[position]) {
            Ok(found) => batch.extend(found.into_iter().map(|entry| (group, index, position, entry))),
            Err(error) => {
                // Who reads the entry gets the same error; until then the segment stays as it is.
                tracing::error!(path = %segment.path.display(), %error, "cannot move an entry of the node log");
                return;
            }
        }
    }
    if !batch.is_empty() {
        move_batch(shared, &mut batch);
    }
}

/// An entry on its way: where it was, and its bytes.
type Moving = (GroupId, u64, Position, Bytes);

/// Puts entries into the newest segment; false if that has to wait.
fn move_batch(shared: &LogCore, batch: &mut Vec<Moving>) -> bool {
    let moved = shared.state.lock().move_entries(batch, &shared.options, shared.new_spare());
    batch.clear();
    match moved {
        Ok(wakes) => shared.wake(wakes),
        // Tried again when the next segment is begun.
        Err(error) => {
            tracing::debug!(%error, "entries of the node log are moved later");
            return false;
        }
    }
    true
}

/// Zeroes the spare segment as far as it shall be by now, step by step.
fn fill_spare(shared: &LogCore) {
    let (spare, until) = {
        let state = shared.state.lock();
        (Arc::clone(&state.spare), state.fill_until)
    };
    loop {
        match spare.fill_step(until) {
            Ok(true) => {}
            Ok(false) => return,
            // The header, too, may be lost now, and with it all that the segment will hold.
            Err(error) => return shared.fail(&io_error("sync", &spare.path, error)),
        }
        let state = shared.state.lock();
        if state.closed || state.failure.is_some() || state.keep {
            return;
        }
    }
}
