//! Where the time of a transaction in memory goes: each part by itself, in the same run.

use std::future::Future;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use mainstay_core::{Level, contract, key, task};
use mainstay_replica::Object;
use mainstay_state::Attempt;
use mainstay_store::state::{Mark, MemoryStore, StateStore as _, WriteBatch};

use super::in_memory::ShardedMap;
use super::node::{Caller, Node};
use super::record::Record;
use crate::contest::{Contest, Results};
use crate::load::runtime;
use crate::measurement::{Measurement, Unit};
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::shuffled::Shuffled;
use crate::stopwatch::Stopwatch;

/// How often each part is done while it is timed.
const COUNT: u64 = 500_000;

const WHOLE: &str = "transact, update";
const EXPLICIT: &str = "begin, update, commit";
const TWO_STEPS: &str = "transact, get_for_update, set";
const EMPTY: &str = "begin, drop";
const FIRST_READ: &str = "begin, get_for_update, drop";
const SECOND_READ: &str = "begin, get_for_update twice, drop";
const KEY: &str = "encode the key";
const ENCODE: &str = "clone and encode the value";
const DECODE: &str = "decode the value";
const COMMIT: &str = "make a batch and commit it";
const APPLY: &str = "apply in the store alone";
const MAP: &str = "sharded Mutex<HashMap>";

/// The parts of [`Caller::change`], and others to compare them with.
type Part = fn(&Path, &Arc<[String]>, u64) -> Outcome<f64>;

const PARTS: [(&str, Part); 12] = [
    (WHOLE, |folder, keys, count| on_node(folder, keys, count, whole)),
    (EXPLICIT, |folder, keys, count| on_node(folder, keys, count, explicit)),
    (TWO_STEPS, |folder, keys, count| on_node(folder, keys, count, two_steps)),
    (EMPTY, |folder, keys, count| on_node(folder, keys, count, empty)),
    (FIRST_READ, |folder, keys, count| on_node(folder, keys, count, first_read)),
    (SECOND_READ, |folder, keys, count| on_node(folder, keys, count, second_read)),
    (COMMIT, commit),
    (KEY, |_, keys, count| encode_key(keys, count)),
    (ENCODE, |_, _, count| encode(count)),
    (DECODE, |_, _, count| decode(count)),
    (APPLY, |_, keys, count| apply(keys, count)),
    (MAP, |_, keys, count| map(keys, count)),
];

pub(super) fn run(settings: &Settings, scratch: &Scratch, report: &mut Report, keys: &Arc<[String]>) -> Outcome<()> {
    let count = settings.count(COUNT);
    let mut contest = Contest::new();
    for (name, part) in PARTS {
        let keys = keys.clone();
        contest.enter(name, Unit::Micros, move |folder| part(folder, &keys, count));
    }
    let results = contest.run(settings.rounds(), scratch)?;
    report.group("one transaction in memory: where the time goes", parts(&results).unwrap_or_default());
    report.group("what that was computed from", results.into_measurements());
    Ok(())
}

/// What each part of a transaction takes. A second read in the same transaction has its locks already.
fn parts(results: &Results) -> Option<Vec<Measurement>> {
    let get = |name| results.get(name);
    let read_and_key = get(SECOND_READ)?.above(get(FIRST_READ)?, "");
    let parts = [
        get(EMPTY)?.named("begin and end"),
        get(KEY)?.named("encode the key"),
        get(FIRST_READ)?.above(get(EMPTY)?, "").above(&read_and_key, "lock and release"),
        read_and_key.above(get(KEY)?, "read the value"),
        get(ENCODE)?.named("clone and encode the value"),
        get(COMMIT)?.named("batch and apply"),
    ];
    let rest = parts.iter().fold(get(WHOLE)?.clone(), |rest, part| rest.above(part, ""));
    let rest = rest.named("everything else: list of writes, values kept for readers, retry");
    Some(parts.into_iter().chain([rest, get(WHOLE)?.named("all of it")]).collect())
}

/// One caller who does a part of a transaction again and again.
struct Turns {
    caller: Caller,
    keys: Arc<[String]>,
    order: Shuffled,
    count: u64,
}

impl Turns {
    /// The key of the next turn, as often as there is one.
    fn next(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        Some(self.order.next())
    }
}

/// Runs a part on a worker of a runtime, where a program's own calls run.
fn on_node<R>(folder: &Path, keys: &Arc<[String]>, count: u64, part: fn(Turns) -> R) -> Outcome<f64>
where
    R: Future<Output = Outcome<()>> + Send + 'static,
{
    runtime()?.block_on(async {
        let node = Node::start(folder, Level::None, keys).await?;
        let order = Shuffled::of_caller(0, 1, keys.len());
        let turns = Turns { caller: Caller::of(&node), keys: keys.clone(), order, count };
        let watch = Stopwatch::start();
        task::spawn(part(turns)).await??;
        let each = micros_each(&watch, count);
        node.stop().await;
        Ok(each)
    })
}

async fn whole(mut turns: Turns) -> Outcome<()> {
    while let Some(number) = turns.next() {
        turns.caller.change(&turns.keys[number]).await?;
    }
    Ok(())
}

async fn explicit(mut turns: Turns) -> Outcome<()> {
    while let Some(number) = turns.next() {
        let mut tx = turns.caller.state.begin();
        turns.caller.records.update(&mut tx, &turns.keys[number], |record| record.count += 1).await?;
        tx.commit().await?;
    }
    Ok(())
}

async fn two_steps(mut turns: Turns) -> Outcome<()> {
    while let Some(number) = turns.next() {
        let (state, records, key) = (&turns.caller.state, &turns.caller.records, &turns.keys[number]);
        let change = async |mut tx: Attempt| {
            let Some(record) = records.get_for_update(&mut tx, key).await? else { return Ok(false) };
            let changed = Record { count: record.count + 1, ..Record::clone(&record) };
            records.set(&mut tx, key.clone(), changed).await?;
            Ok(true)
        };
        if !state.transact(change).await? {
            return Err("a record is gone".into());
        }
    }
    Ok(())
}

async fn empty(mut turns: Turns) -> Outcome<()> {
    while turns.next().is_some() {
        drop(turns.caller.state.begin());
    }
    Ok(())
}

async fn first_read(mut turns: Turns) -> Outcome<()> {
    while let Some(number) = turns.next() {
        let mut tx = turns.caller.state.begin();
        turns.caller.records.get_for_update(&mut tx, &turns.keys[number]).await?;
    }
    Ok(())
}

async fn second_read(mut turns: Turns) -> Outcome<()> {
    while let Some(number) = turns.next() {
        let mut tx = turns.caller.state.begin();
        turns.caller.records.get_for_update(&mut tx, &turns.keys[number]).await?;
        turns.caller.records.get_for_update(&mut tx, &turns.keys[number]).await?;
    }
    Ok(())
}

/// The partition by itself, with keys and values as long as those of the records.
fn commit(folder: &Path, keys: &Arc<[String]>, count: u64) -> Outcome<f64> {
    let (keys, mut order) = (keys.clone(), Shuffled::of_caller(0, 1, keys.len()));
    runtime()?.block_on(async {
        let node = Node::start(folder, Level::None, &[]).await?;
        let partition = node.partition.clone();
        // A value as a transaction commits it: kept as it is.
        let len = 1 + contract::encode(&Record::new(0))?.len() as u32;
        let object = Object { value: Arc::new(Record::new(0)), head: 0x10, len };
        let put = async move |number: usize| {
            let mut batch = partition.batch();
            batch.put_object(&stored_key(&keys[number])?, object.clone())?;
            Outcome::Ok(partition.commit(batch).await?)
        };
        for number in 0..order.len() {
            put(number).await?;
        }
        let watch = Stopwatch::start();
        for _ in 0..count {
            put(order.next()).await?;
        }
        let each = micros_each(&watch, count);
        node.stop().await;
        Ok(each)
    })
}

/// The store by itself. The batches are made beforehand.
fn apply(keys: &[String], count: u64) -> Outcome<f64> {
    let value = contract::encode(&Record::new(0))?;
    let mut batches = Vec::with_capacity(keys.len());
    for key in keys {
        let mut batch = WriteBatch::with_prefix(&1_u64.to_be_bytes());
        batch.put(&stored_key(key)?, &value);
        batches.push(batch);
    }
    let store = MemoryStore::new();
    let mut mark = Mark::default();
    let mut apply = |batch: &WriteBatch| {
        mark.index += 1;
        store.apply(mark.clone(), &mut batch.iter())
    };
    batches.iter().try_for_each(&mut apply)?;
    let mut order = Shuffled::of_caller(0, 1, keys.len());
    let watch = Stopwatch::start();
    for _ in 0..count {
        apply(&batches[order.next()])?;
    }
    Ok(micros_each(&watch, count))
}

/// A key as it stands in a partition: behind what says of which collection it is.
fn stored_key(text: &str) -> Outcome<Vec<u8>> {
    let mut key = vec![0x10, 0, 0, 0, 1];
    key::encode_into(&mut key, text)?;
    Ok(key)
}

fn encode_key(keys: &[String], count: u64) -> Outcome<f64> {
    let mut order = Shuffled::of_caller(0, 1, keys.len());
    let mut buffer = Vec::new();
    let watch = Stopwatch::start();
    for _ in 0..count {
        buffer.clear();
        key::encode_into(&mut buffer, black_box(&keys[order.next()]))?;
        black_box(&buffer);
    }
    Ok(micros_each(&watch, count))
}

fn encode(count: u64) -> Outcome<f64> {
    let record = Record::new(0);
    let mut buffer = Vec::new();
    let watch = Stopwatch::start();
    for _ in 0..count {
        buffer.clear();
        contract::encode_into(&mut buffer, &*Arc::new(black_box(&record).clone()))?;
        black_box(&buffer);
    }
    Ok(micros_each(&watch, count))
}

fn decode(count: u64) -> Outcome<f64> {
    let bytes = contract::encode(&Record::new(0))?;
    let watch = Stopwatch::start();
    for _ in 0..count {
        black_box(contract::decode_keeping::<Record>(black_box(&bytes))?);
    }
    Ok(micros_each(&watch, count))
}

fn map(keys: &[String], count: u64) -> Outcome<f64> {
    let map = ShardedMap::new(keys);
    let mut order = Shuffled::of_caller(0, 1, keys.len());
    let watch = Stopwatch::start();
    for _ in 0..count {
        map.change(&keys[order.next()])?;
    }
    Ok(micros_each(&watch, count))
}

fn micros_each(watch: &Stopwatch, count: u64) -> f64 {
    watch.seconds() * 1e6 / count as f64
}
