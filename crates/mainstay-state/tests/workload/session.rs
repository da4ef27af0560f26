//! Transactions of one caller, one after the other, made up by chance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use mainstay_core::time::Duration;
use mainstay_core::{ErrorKind, Result};
use mainstay_state::{Dictionary, StateManager, Transaction};
use parking_lot::Mutex;
use rand::RngExt as _;
use rand::rngs::StdRng;

use super::history::{Event, Place, Recorded, Seen};
use super::schedule::{polled, turn};
use super::{Dictionaries, KEYS};

/// What all sessions write down.
pub struct Record {
    moment: AtomicU64,
    value: AtomicU64,
    unknown_left: AtomicU32,
    history: Mutex<Vec<Recorded>>,
}

impl Record {
    pub fn new(unknown_max: u32) -> Arc<Self> {
        let (moment, value) = (AtomicU64::new(0), AtomicU64::new(1));
        Arc::new(Self { moment, value, unknown_left: AtomicU32::new(unknown_max), history: Mutex::default() })
    }

    pub fn into_history(self: Arc<Self>) -> Vec<Recorded> {
        std::mem::take(&mut *self.history.lock())
    }

    fn moment(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }

    /// No value is written twice.
    fn value(&self) -> u64 {
        self.value.fetch_add(1, Ordering::SeqCst)
    }

    fn may_be_unknown(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.unknown_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

pub struct Session {
    number: u64,
    random: StdRng,
    state: StateManager,
    dictionaries: Dictionaries,
    record: Arc<Record>,
}

/// What became of an operation.
enum Step {
    Done,
    /// Its lock was not free in time, or nobody waited for it: as if it had not been.
    Nothing,
    /// The transaction is the victim of a deadlock.
    Dead,
}

impl Session {
    pub fn new(
        number: u64,
        random: StdRng,
        state: &StateManager,
        dictionaries: &Dictionaries,
        record: &Arc<Record>,
    ) -> Self {
        let (state, dictionaries, record) = (state.clone(), dictionaries.clone(), record.clone());
        Self { number, random, state, dictionaries, record }
    }

    pub async fn run(mut self, transactions: u32) {
        for number in 0..transactions {
            turn().await;
            self.transaction(number).await;
        }
    }

    async fn transaction(&mut self, number: u32) {
        let begun = self.record.moment();
        let mut tx = self.state.begin();
        let name = format!("transaction {number} of session {} ({})", self.number, tx.id());
        let mut events = Vec::new();
        for _ in 0..self.random.random_range(1..=5) {
            turn().await;
            match self.step(&mut tx, &mut events).await {
                Step::Done => {}
                Step::Nothing if self.random.random_bool(0.5) => {}
                Step::Nothing => return,
                Step::Dead => {
                    let again = self.dictionaries[0].get(&mut tx, &0).await.unwrap_err();
                    assert_eq!(again.kind(), ErrorKind::Retry, "{name}: {again}");
                    return;
                }
            }
        }
        turn().await;
        let end = self.random.random_range(0..10);
        let polls_max = (end == 0 && self.record.may_be_unknown()).then(|| self.random.random_range(1..4));
        let sequence_number = match end {
            1 => return tx.abort(),
            2 => return drop(tx),
            _ => polled(tx.commit(), polls_max).await.map(|outcome| outcome.expect("it is the only primary").0),
        };
        let recorded = Recorded { name, events, begun, ended: self.record.moment(), sequence_number };
        self.record.history.lock().push(recorded);
    }

    async fn step(&mut self, tx: &mut Transaction, events: &mut Vec<Event>) -> Step {
        let Self { random, dictionaries, record, .. } = self;
        let limit = random.random_ratio(1, 5).then(|| Duration::from_millis(random.random_range(0..30)));
        let polls_max = random.random_ratio(1, 8).then(|| random.random_range(1..6));
        let place = (random.random_range(0..2), random.random_range(0..KEYS));
        let choice = random.random_range(0..13);
        let tx = match limit {
            Some(limit) => tx.within(limit),
            None => tx,
        };
        // What a comparison expects is at times what is there.
        let expected = match events.last() {
            Some(Event::Read(_, Seen::Is(Some(value))) | Event::Write(_, Some(value))) => *value,
            _ => random.random_range(0..30),
        };
        let operation = operation(choice, place, expected, record.value(), dictionaries, tx);
        match polled(operation, polls_max).await {
            None => Step::Nothing,
            Some(Ok(done)) => {
                events.extend(done);
                Step::Done
            }
            Some(Err(error)) => match error.kind() {
                ErrorKind::Timeout => Step::Nothing,
                ErrorKind::Retry => Step::Dead,
                _ => panic!("{error:?}"),
            },
        }
    }
}

/// One operation, and what it tells.
async fn operation(
    choice: u32,
    place: Place,
    expected: u64,
    value: u64,
    dictionaries: &Dictionaries,
    tx: &mut Transaction,
) -> Result<Vec<Event>> {
    let (collection, key) = place;
    let dictionary = &dictionaries[collection];
    let is = |seen: Option<u64>| Event::Read(place, Seen::Is(seen));
    let present = |present| Event::Read(place, Seen::Present(present));
    let write = Event::Write(place, Some(value));
    let removed = Event::Write(place, None);
    Ok(match choice {
        0 | 1 => vec![is(dictionary.get(tx, &key).await?.as_deref().copied())],
        2 => vec![is(dictionary.get_for_update(tx, &key).await?.as_deref().copied())],
        3 => vec![present(dictionary.contains(tx, &key).await?)],
        4 => {
            let keys: Vec<u8> = (0..KEYS).collect();
            let values = dictionary.multi_get(tx, &keys).await?;
            let read =
                |(key, value): (u8, Option<Arc<u64>>)| Event::Read((collection, key), Seen::Is(value.map(|v| *v)));
            keys.into_iter().zip(values).map(read).collect()
        }
        5 => {
            dictionary.set(tx, key, value).await?;
            vec![write]
        }
        6 => match dictionary.try_add(tx, key, value).await? {
            true => vec![is(None), write],
            false => vec![present(true)],
        },
        7 => {
            let mut old = None;
            let change = |now: &mut u64| old = Some(std::mem::replace(now, value));
            match dictionary.update(tx, &key, change).await? {
                Some(_) => vec![is(old), write],
                None => vec![is(None)],
            }
        }
        8 => match dictionary.compare_and_set(tx, key, &expected, value).await? {
            true => vec![is(Some(expected)), write],
            false => vec![Event::Read(place, Seen::IsNot(expected))],
        },
        9 => match dictionary.try_remove(tx, &key).await? {
            Some(old) => vec![is(Some(*old)), removed],
            None => vec![is(None)],
        },
        10 => match *dictionary.get_or_add(tx, key, || value).await? {
            now if now == value => vec![is(None), write],
            now => vec![is(Some(now))],
        },
        11 => {
            dictionary.clear(tx).await?;
            (0..KEYS).map(|key| Event::Write((collection, key), None)).collect()
        }
        _ => {
            let mut old = None;
            let change = |now: &mut u64| old = Some(std::mem::replace(now, value));
            dictionary.add_or_update(tx, key, value, change).await?;
            vec![is(old), write]
        }
    })
}

/// What is there in the end, as one more transaction.
pub async fn read_all(state: &StateManager, dictionaries: &Dictionaries, record: &Arc<Record>) {
    let begun = record.moment();
    let mut tx = state.begin();
    let mut events = Vec::new();
    for (collection, dictionary) in dictionaries.iter().enumerate() {
        for key in 0..KEYS {
            let value = read_in_the_end(dictionary, &mut tx, key).await;
            events.push(Event::Read((collection, key), Seen::Is(value)));
        }
    }
    // After all keys: counts are of one snapshot, which a commit that is still on its way must not miss.
    for (collection, dictionary) in dictionaries.iter().enumerate() {
        events.push(Event::Count(collection, dictionary.len(&mut tx).await.unwrap()));
    }
    let sequence_number = Some(tx.commit().await.unwrap().0);
    let recorded = Recorded { name: "the last reader".into(), events, begun, ended: record.moment(), sequence_number };
    record.history.lock().push(recorded);
}

/// How often a commit that is on its way to the disk is waited for, a millisecond of the machine's own clock each time.
const WAITS_MAX: u32 = 60_000;

/// Reads a key, for whose lock it may have to wait until a commit has ended that nobody waits for. A paused clock runs ahead while
/// that is on its way to the disk, and so time limits say nothing.
#[allow(clippy::disallowed_methods, reason = "the clock of the test is ahead of the disk that is waited for")]
async fn read_in_the_end(dictionary: &Dictionary<u8, u64>, tx: &mut Transaction, key: u8) -> Option<u64> {
    for _ in 0..WAITS_MAX {
        match dictionary.get(tx, &key).await {
            Err(error) if error.kind() == ErrorKind::Timeout => std::thread::sleep(Duration::from_millis(1)),
            value => return value.unwrap().as_deref().copied(),
        }
    }
    panic!("key {key} stays locked");
}
