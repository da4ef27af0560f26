//! A disk in memory that behaves like a real one where it hurts.
//!
//! [`SimDisk::crash`] loses what was not synced: every unsynced write is kept, dropped or torn between sectors (of 512 bytes,
//! or of 4,096 for [`SimDisk::with_large_sectors`]), every
//! unsynced change of a length or a name happened or did not. Chance comes from the seed alone: the same seed and the
//! same calls give the same outcome.

mod fault;
mod file;
mod names;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

pub use fault::{DiskOp, Fault};
pub use file::{LARGE_SECTOR_BYTES, SECTOR_BYTES};
use file::{SimInode, Way};
use names::Names;

use super::{Disk, DiskFile, DiskLock, DiskSpace, LockHolder, OpenMode};

/// A simulated disk; clones are the same disk.
///
/// ```
/// use std::path::Path;
/// use mainstay_store::disk::{Disk, OpenMode, sim::SimDisk};
///
/// let disk = SimDisk::new(7);
/// let file = disk.open(Path::new("/a"), OpenMode::New)?;
/// disk.sync_dir(Path::new("/"))?;
/// file.write_all_at(b"synced", 0)?;
/// file.sync()?;
/// file.write_all_at(b"perhaps", 6)?;
/// disk.crash();
///
/// assert!(file.len().is_err(), "a handle from before the crash is dead");
/// let mut bytes = [0; 6];
/// disk.open(Path::new("/a"), OpenMode::Existing)?.read_exact_at(&mut bytes, 0)?;
/// assert_eq!(&bytes, b"synced");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
}

#[derive(Debug)]
struct World {
    rng: StdRng,
    sector_bytes: u64,
    /// Counts crashes: what was opened in another life is dead.
    life: u64,
    next_file: u64,
    files: BTreeMap<u64, SimInode>,
    names: Names,
    dirs: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
    faults: Vec<Fault>,
    /// Counts operations that failed by one of the faults.
    struck: u64,
    capacity_bytes: Option<u64>,
    /// The operations left until the power goes.
    power_ops: Option<u64>,
    syncs: u64,
}

impl SimDisk {
    /// An empty disk with sectors of [`SECTOR_BYTES`].
    pub fn new(seed: u64) -> Self {
        Self::with_sectors(seed, SECTOR_BYTES)
    }

    /// An empty disk with sectors of [`LARGE_SECTOR_BYTES`]. A crash keeps or drops each of them as a whole, and may destroy one
    /// that a write past the cache has covered in part since the last sync, with what was durable in it.
    pub fn with_large_sectors(seed: u64) -> Self {
        Self::with_sectors(seed, LARGE_SECTOR_BYTES)
    }

    fn with_sectors(seed: u64, sector_bytes: u64) -> Self {
        let world = World {
            rng: StdRng::seed_from_u64(seed),
            sector_bytes,
            life: 0,
            next_file: 0,
            files: BTreeMap::new(),
            names: Names::default(),
            dirs: BTreeSet::from([PathBuf::from("/")]),
            locks: BTreeSet::new(),
            faults: Vec::new(),
            struck: 0,
            capacity_bytes: None,
            power_ops: None,
            syncs: 0,
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Stops the machine and starts it again: unsynced changes survive by chance, handles and locks are dead, and
    /// the power is back. Faults stay.
    pub fn crash(&self) {
        let world = &mut *self.world.lock();
        world.life += 1;
        world.power_ops = None;
        world.locks.clear();
        for file in world.files.values_mut() {
            file.crash(&mut world.rng);
        }
        world.names.crash(&mut world.rng);
        world.forget_unreachable();
    }

    /// Ends the process and leaves the machine running, as when it is killed: handles and locks are dead, and what was written
    /// stays, synced or not. Faults stay, and so does a loss of power that is still to come.
    pub fn end_process(&self) {
        let world = &mut *self.world.lock();
        world.life += 1;
        world.locks.clear();
        for file in world.files.values_mut() {
            file.handles = 0;
        }
        world.forget_unreachable();
    }

    /// True while something of this process has a lock on the disk.
    pub fn is_locked(&self) -> bool {
        !self.world.lock().locks.is_empty()
    }

    /// Lets that many operations happen; all later ones fail, until [`crash`](Self::crash). That is how a test stops
    /// the machine in the midst of something.
    pub fn power_off_after(&self, operations: u64) {
        self.world.lock().power_ops = Some(operations);
    }

    /// Takes [`power_off_after`](Self::power_off_after) back. False if the power has gone already: then only a
    /// [`crash`](Self::crash) brings it back.
    pub fn keep_power(&self) -> bool {
        let power = &mut self.world.lock().power_ops;
        let is_on = *power != Some(0);
        if is_on {
            *power = None;
        }
        is_on
    }

    /// True if the operations that were let happen are used up.
    pub fn is_without_power(&self) -> bool {
        self.world.lock().power_ops == Some(0)
    }

    /// Makes an operation fail.
    pub fn inject(&self, fault: Fault) {
        self.world.lock().faults.push(fault);
    }

    /// Takes all faults back.
    pub fn heal(&self) {
        self.world.lock().faults.clear();
    }

    /// How many operations have failed by an injected fault so far.
    pub fn struck(&self) -> u64 {
        self.world.lock().struck
    }

    /// Sets how many bytes fit onto the disk (`None`: no limit). What reserves more fails with
    /// [`io::ErrorKind::StorageFull`].
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world.lock().capacity_bytes = bytes;
    }

    /// The bytes that are reserved or written.
    pub fn used_bytes(&self) -> u64 {
        self.world.lock().used_bytes()
    }

    /// How many syncs of files have succeeded.
    pub fn syncs(&self) -> u64 {
        self.world.lock().syncs
    }

    /// Flips a bit of a file, durably and unnoticed.
    ///
    /// # Errors
    /// If the file does not exist or ends before.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        self.damage(path, offset, |byte| byte ^ (1 << (bit % 8)))
    }

    /// Sets a byte of a file, durably and unnoticed.
    ///
    /// # Errors
    /// If the file does not exist or ends before.
    pub fn set_byte(&self, path: &Path, offset: u64, byte: u8) -> io::Result<()> {
        self.damage(path, offset, |_| byte)
    }

    /// Cuts a file off, durably and unnoticed.
    ///
    /// # Errors
    /// If the file does not exist.
    pub fn cut(&self, path: &Path, len: u64) -> io::Result<()> {
        let world = &mut *self.world.lock();
        let file = world.file_at(path)?;
        file.set_len(len);
        file.sync();
        Ok(())
    }

    /// Loses a folder with all that is in it, durably and unnoticed.
    pub fn lose_dir(&self, dir: &Path) {
        let world = &mut *self.world.lock();
        world.names.lose(dir);
        world.dirs.retain(|other| !other.starts_with(dir));
        world.forget_unreachable();
    }

    fn open_by(&self, path: &Path, mode: OpenMode, way: Way) -> io::Result<Arc<dyn DiskFile>> {
        let world = &mut *self.world.lock();
        world.admit(DiskOp::Open, path)?;
        let number = world.open(path, mode)?;
        if let Some(file) = world.files.get_mut(&number) {
            file.handles += 1;
        }
        Ok(Arc::new(SimFile { world: Arc::clone(&self.world), number, life: world.life, way }))
    }

    fn damage(&self, path: &Path, offset: u64, change: impl Fn(u8) -> u8) -> io::Result<()> {
        let world = &mut *self.world.lock();
        let file = world.file_at(path)?;
        if offset >= file.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.damage(offset, change);
        Ok(())
    }
}

impl World {
    /// What every operation passes: the power is on and no fault was asked for.
    fn admit(&mut self, op: DiskOp, path: &Path) -> io::Result<()> {
        match &mut self.power_ops {
            Some(0) => return Err(io::Error::other("the simulated machine has no power")),
            Some(left) => *left -= 1,
            None => {}
        }
        let struck = self.faults.iter_mut().find_map(|fault| fault.strike(op, path));
        self.faults.retain(|fault| !fault.is_spent());
        self.struck += u64::from(struck.is_some());
        struck.map_or(Ok(()), Err)
    }

    fn file_at(&mut self, path: &Path) -> io::Result<&mut SimInode> {
        let number = self.names.get(path).ok_or_else(|| not_found(path))?;
        self.files.get_mut(&number).ok_or_else(|| not_found(path))
    }

    /// Finds or creates a file.
    fn open(&mut self, path: &Path, mode: OpenMode) -> io::Result<u64> {
        if self.dirs.contains(path) {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, format!("{} is a folder", path.display())));
        }
        match (self.names.get(path), mode) {
            (Some(_), OpenMode::New) => Err(io::Error::new(io::ErrorKind::AlreadyExists, exists_text(path))),
            (None, OpenMode::Existing) => Err(not_found(path)),
            (Some(number), _) => Ok(number),
            (None, _) => {
                self.check_dir_of(path)?;
                let number = self.next_file;
                self.next_file += 1;
                self.files.insert(number, SimInode::new(path.to_path_buf(), self.sector_bytes));
                self.names.create(path, number);
                Ok(number)
            }
        }
    }

    fn check_dir_of(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(dir) if self.dirs.contains(dir) => Ok(()),
            _ => Err(not_found(path)),
        }
    }

    fn used_bytes(&self) -> u64 {
        self.files.values().map(SimInode::reserved).sum()
    }

    fn check_room(&self, file: u64, end: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity_bytes else { return Ok(()) };
        let reserved = self.files.get(&file).map_or(0, SimInode::reserved);
        if end > reserved && self.used_bytes() + (end - reserved) > capacity {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the simulated disk is full"));
        }
        Ok(())
    }

    fn forget_unreachable(&mut self) {
        let reachable = self.names.reachable();
        self.files.retain(|number, file| file.handles > 0 || reachable.contains(number));
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.open_by(path, mode, Way::Cached)
    }

    fn open_direct(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.open_by(path, mode, Way::Direct)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let world = &mut *self.world.lock();
        world.admit(DiskOp::List, dir)?;
        if !world.dirs.contains(dir) {
            return Err(not_found(dir));
        }
        let dirs = world.dirs.iter().map(PathBuf::as_path).filter(|path| path.parent() == Some(dir));
        let names = world.names.in_dir(dir).chain(dirs).filter_map(Path::file_name);
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let world = &mut *self.world.lock();
        world.admit(DiskOp::CreateDir, dir)?;
        if dir.ancestors().any(|dir| world.names.get(dir).is_some()) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, exists_text(dir)));
        }
        world.dirs.extend(dir.ancestors().filter(|dir| !dir.as_os_str().is_empty()).map(Path::to_path_buf));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let world = &mut *self.world.lock();
        world.admit(DiskOp::Rename, from)?;
        world.check_dir_of(to)?;
        let number = world.names.rename(from, to).ok_or_else(|| not_found(from))?;
        if let Some(file) = world.files.get_mut(&number) {
            file.path = to.to_path_buf();
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let world = &mut *self.world.lock();
        world.admit(DiskOp::Remove, path)?;
        world.names.remove(path).ok_or_else(|| not_found(path))?;
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let world = &mut *self.world.lock();
        world.admit(DiskOp::SyncDir, dir)?;
        if !world.dirs.contains(dir) {
            return Err(not_found(dir));
        }
        world.names.sync(dir);
        world.forget_unreachable();
        Ok(())
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        let world = &mut *self.world.lock();
        world.admit(DiskOp::Space, dir)?;
        Ok(world.capacity_bytes.map_or(DiskSpace::UNLIMITED, |total_bytes| DiskSpace {
            free_bytes: total_bytes.saturating_sub(world.used_bytes()),
            total_bytes,
        }))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let world = &mut *self.world.lock();
        world.admit(DiskOp::Lock, path)?;
        world.open(path, OpenMode::Either)?;
        if !world.locks.insert(path.to_path_buf()) {
            return Err(LockHolder::ThisProcess.into_error());
        }
        Ok(Box::new(SimLock { world: Arc::clone(&self.world), path: path.to_path_buf(), life: world.life }))
    }
}

#[derive(Debug)]
struct SimFile {
    world: Arc<Mutex<World>>,
    number: u64,
    life: u64,
    way: Way,
}

impl SimFile {
    /// Runs an operation on the file of a live handle. `on_fault` sees the file when a fault strikes instead.
    fn with<T>(
        &self,
        op: DiskOp,
        on_fault: impl FnOnce(&mut SimInode, &mut StdRng),
        run: impl FnOnce(&mut World, u64) -> io::Result<T>,
    ) -> io::Result<T> {
        let world = &mut *self.world.lock();
        if world.life != self.life {
            return Err(io::Error::other(
                "the process of this file has ended since, or its simulated machine has crashed",
            ));
        }
        let path = world.files.get(&self.number).map(|file| file.path.clone()).unwrap_or_default();
        let powered = world.power_ops != Some(0);
        if let Err(error) = world.admit(op, &path) {
            if powered && let Some(file) = world.files.get_mut(&self.number) {
                on_fault(file, &mut world.rng);
            }
            return Err(error);
        }
        run(world, self.number)
    }
}

impl World {
    fn file(&mut self, number: u64) -> io::Result<&mut SimInode> {
        self.files.get_mut(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.with(DiskOp::Len, |_, _| {}, |world, number| Ok(world.file(number)?.len()))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(DiskOp::Read, |_, _| {}, |world, number| world.file(number)?.read(buffer, offset))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
        let half = |file: &mut SimInode, _: &mut StdRng| {
            if file.reserved() >= end {
                let middle = file.sector_before(offset + bytes.len() as u64 / 2);
                file.write(&bytes[..middle.saturating_sub(offset) as usize], offset, self.way);
            }
        };
        self.with(DiskOp::Write, half, |world, number| {
            world.check_room(number, end)?;
            world.file(number)?.write(bytes, offset, self.way);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(
            DiskOp::SetLen,
            |_, _| {},
            |world, number| {
                world.file(number)?.set_len(len);
                Ok(())
            },
        )
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.with(
            DiskOp::Allocate,
            |_, _| {},
            |world, number| {
                world.check_room(number, len)?;
                world.file(number)?.allocate(len);
                Ok(())
            },
        )
    }

    fn sync(&self) -> io::Result<()> {
        self.with(DiskOp::Sync, SimInode::fail_sync, |world, number| {
            world.syncs += 1;
            world.file(number)?.sync();
            Ok(())
        })
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let world = &mut *self.world.lock();
        if world.life == self.life
            && let Some(file) = world.files.get_mut(&self.number)
        {
            file.handles -= 1;
            if file.handles == 0 && !world.names.reachable().contains(&self.number) {
                world.files.remove(&self.number);
            }
        }
    }
}

#[derive(Debug)]
struct SimLock {
    world: Arc<Mutex<World>>,
    path: PathBuf,
    life: u64,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let world = &mut *self.world.lock();
        if world.life == self.life {
            world.locks.remove(&self.path);
        }
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} does not exist", path.display()))
}

fn exists_text(path: &Path) -> String {
    format!("{} exists already", path.display())
}
