use std::ops::Bound;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::state::{KeyRange, Order, Write};

/// A [`Write`] with bytes of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedWrite {
    /// [`Write::Put`].
    Put(Vec<u8>, Vec<u8>),
    /// [`Write::Delete`].
    Delete(Vec<u8>),
    /// [`Write::DeleteRange`].
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
    /// [`Write::Add`].
    Add(Vec<u8>, i64),
    /// [`Write::PutStamped`]: start, stamp, end and value.
    PutStamped(Vec<u8>, u64, Vec<u8>, Vec<u8>),
    /// [`Write::Note`].
    Note(Vec<u8>),
}

impl OwnedWrite {
    /// The write in the form that a store takes.
    pub fn as_write(&self) -> Write<'_> {
        match self {
            OwnedWrite::Put(key, value) => Write::Put { key, value },
            OwnedWrite::Delete(key) => Write::Delete { key },
            OwnedWrite::DeleteRange(start, end) => Write::DeleteRange { start, end: end.as_deref() },
            OwnedWrite::Add(key, delta) => Write::Add { key, delta: *delta },
            OwnedWrite::PutStamped(start, stamp, end, value) => Write::PutStamped { start, stamp: *stamp, end, value },
            OwnedWrite::Note(note) => Write::Note { note },
        }
    }
}

/// One thing that is done to a store and to the model of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Applies a batch and moves the mark on, unless it adds to what is no counter: then nothing changes.
    Apply(Vec<OwnedWrite>),
    /// Reads a key.
    Get(Vec<u8>),
    /// Reads several keys.
    MultiGet(Vec<Vec<u8>>),
    /// Scans a range and reads up to that many entries.
    Scan(KeyRange, Order, usize),
    /// Compares the counts.
    Counts,
    /// Takes a snapshot and holds it: it is compared again at every later [`Step::CheckHeld`].
    Hold,
    /// Compares all snapshots held, each with what was there when it was taken.
    CheckHeld,
    /// Lets go of the oldest snapshot held.
    Release,
    /// Makes a checkpoint.
    Checkpoint,
    /// Closes the store and opens it again, if it is durable: it is then at its last checkpoint.
    Reopen,
    /// Exports the state into another, new store, which goes on in its place.
    Move,
    /// Exports the oldest snapshot held, or the current state, and imports it into the store itself.
    Restore,
}

/// Steps that depend on the seed alone, with keys that often meet.
pub fn random_steps(seed: u64, count: usize) -> Vec<Step> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..count).map(|_| step(&mut random)).collect()
}

fn step(random: &mut StdRng) -> Step {
    match random.random_range(0..100) {
        0..40 => Step::Apply((0..random.random_range(0..8)).map(|_| write(random)).collect()),
        40..48 => Step::Get(key(random)),
        48..52 => Step::MultiGet((0..random.random_range(0..5)).map(|_| key(random)).collect()),
        52..66 => {
            let range = KeyRange { start: bound(random), end: bound(random) };
            let order = if random.random() { Order::Ascending } else { Order::Descending };
            Step::Scan(range, order, random.random_range(0..40))
        }
        66..71 => Step::Counts,
        71..77 => Step::Hold,
        77..81 => Step::CheckHeld,
        81..84 => Step::Release,
        84..92 => Step::Checkpoint,
        92..96 => Step::Reopen,
        96..98 => Step::Move,
        _ => Step::Restore,
    }
}

fn write(random: &mut StdRng) -> OwnedWrite {
    match random.random_range(0..14) {
        0..6 => {
            let len = if random.random_range(0..20) == 0 { 5000 } else { random.random_range(0..12) };
            OwnedWrite::Put(key(random), (0..len).map(|_| random.random()).collect())
        }
        6..8 => OwnedWrite::Delete(key(random)),
        8..11 => {
            // Seldom one that has another value.
            let key = if random.random_range(0..30) == 0 { key(random) } else { vec![b'b', random.random_range(0..3)] };
            let delta = if random.random_range(0..10) == 0 { i64::MAX } else { random.random_range(-2..3) };
            OwnedWrite::Add(key, delta)
        }
        11 => OwnedWrite::PutStamped(key(random), random.random_range(0..4) << 61, key(random), vec![1; 9]),
        12 => OwnedWrite::Note(key(random)),
        _ => {
            let end = (random.random_range(0..4) > 0).then(|| key(random));
            OwnedWrite::DeleteRange(key(random), end)
        }
    }
}

fn key(random: &mut StdRng) -> Vec<u8> {
    const LETTERS: [u8; 5] = [0x00, b'a', b'b', b'c', 0xff];
    (0..random.random_range(0..4)).map(|_| LETTERS[random.random_range(0..LETTERS.len())]).collect()
}

fn bound(random: &mut StdRng) -> Bound<Bytes> {
    match random.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(random).into()),
        _ => Bound::Excluded(key(random).into()),
    }
}
