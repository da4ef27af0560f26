use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstay_core::time::Duration;
use mainstay_core::{Error, ErrorKind, Result};

use crate::disk::Disk;

/// How often the disk is looked at: as long as it is written to, and while it has little room left.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How much is written between two looks, at most.
const LOOK_BYTES_MAX: u64 = 8 << 20;

/// Which part of a small file system is kept back at most, however much is asked for.
const KEPT_SHARE: u64 = 16;

/// By which part of what is kept back there must be more than that before commits are taken again.
const RELIEF_SHARE: u64 = 8;

/// Watches how much room the disk has left, so that commits are refused before a batch has to be: a set whose batch is
/// refused stops.
#[derive(Debug)]
pub(super) struct SpaceWatch {
    is_low: AtomicBool,
    free_bytes: AtomicU64,
    kept_bytes: AtomicU64,
}

impl SpaceWatch {
    pub(super) fn new() -> Self {
        Self {
            is_low: AtomicBool::new(false),
            free_bytes: AtomicU64::new(u64::MAX),
            kept_bytes: AtomicU64::new(u64::MAX),
        }
    }

    /// Looks at the disk of a folder. `reserve_bytes` are to be kept back, and nothing is watched if there are none; of a small
    /// disk a part at most, but always what the log `needs` to go on.
    pub(super) fn look(&self, disk: &dyn Disk, dir: &Path, reserve_bytes: u64, needs: u64) {
        if reserve_bytes == 0 {
            return;
        }
        let space = match disk.space(dir) {
            Ok(space) => space,
            // What was known last is the best guess. If the disk is broken, the log finds out by itself.
            Err(error) => return tracing::debug!(dir = %dir.display(), %error, "cannot ask for the room on the disk"),
        };
        let (free, kept) = (space.free_bytes, reserve_bytes.min(space.total_bytes / KEPT_SHARE).max(needs));
        self.free_bytes.store(free, Ordering::Relaxed);
        self.kept_bytes.store(kept, Ordering::Relaxed);
        let was_low = self.is_low();
        let is_low = free < if was_low { kept.saturating_add(kept / RELIEF_SHARE) } else { kept };
        self.is_low.store(is_low, Ordering::Relaxed);
        match (was_low, is_low) {
            (false, true) => tracing::error!(
                dir = %dir.display(),
                free_bytes = free,
                kept_bytes = kept,
                "the disk of the node log is nearly full: commits are refused as overloaded until there is room; free or add some"
            ),
            (true, false) => tracing::info!(
                dir = %dir.display(),
                free_bytes = free,
                "the disk of the node log has room again: commits are taken"
            ),
            _ => {}
        }
    }

    pub(super) fn is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed)
    }

    /// How many bytes are free, if that is known.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        Some(self.free_bytes.load(Ordering::Relaxed)).filter(|free| *free < u64::MAX)
    }

    /// How much may be written before the next look.
    pub(super) fn look_bytes(&self) -> u64 {
        (self.kept_bytes.load(Ordering::Relaxed) / 8).min(LOOK_BYTES_MAX)
    }

    /// # Errors
    /// `Overloaded` if the disk had little room left at the last look.
    pub(super) fn check(&self, dir: &Path) -> Result<()> {
        if !self.is_low() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Overloaded,
            format!(
                "the disk of {} has {} bytes left, and {} are kept back (log.reserve_bytes): free or add room, and retry",
                dir.display(),
                self.free_bytes.load(Ordering::Relaxed),
                self.kept_bytes.load(Ordering::Relaxed)
            ),
        ))
    }
}
