//! What operators can set of governance: the sections of the settings file, with their keys.
//!
//! | section | of | the name |
//! |---|---|---|
//! | `[governance.resolvers.NAME]` | [`ResolverSettings`] | of the resolver |
//! | `[governance.limits.NAME]` | [`LimiterSettings`] | of the limit |
//! | `[governance.owners.NAME]` | [`OwnerSettings`], of owners and of the members of pools | [`Resource::NAME`] |
//! | `[governance.pools.NAME]` | [`PoolSettings`] | [`Resource::NAME`] |
//! | `[governance.batches.NAME]` | [`BatchSettings`], where the code asks for them: [`BatchSettings::in_force`] | of the executor |
//! | `[governance.queues.NAME]` | [`DurableSettings`] | [`DurableWriter::NAME`](crate::batch::durable::DurableWriter::NAME) |
//! | `[governance.caches.NAME]` | [`CacheSettings`] | [`CacheSource::NAME`](crate::cache::CacheSource::NAME) |
//! | `[governance.csv.NAME]` | [`CsvSettings`](crate::sink::csv::CsvSettings) | [`CsvRow::OWNER`](crate::sink::csv::CsvRow::OWNER) |
//!
//! What the code says goes over the defaults; file, environment and builder go over the code. The `serve` of each part gives the
//! node its section, so only what a program has can be set. Not everything is a setting: a policy, a way to coordinate and a number of
//! shards are decisions of the program, and the size of a pool that is in use and the number of a limit are stored and changed by
//! a call.

use std::ops::RangeInclusive;
use std::time::Duration;

use mainstay::Result;
use mainstay::node::settings::{Form, Key, Section, Value};
use mainstay::node::{NodeBuilder, Settings, setting};
use mainstay::service::Services;

use crate::batch::durable::DurableSettings;
use crate::batch::{BatchSettings, RetryPolicy};
use crate::cache::{CacheSettings, WriteMode};
use crate::limit::{LEASE_MAX, LEASE_MIN, LimiterSettings};
#[cfg(doc)]
use crate::owner::Resource;
use crate::owner::{Backoff, OwnerSettings};
use crate::pool::{LEASE_TIME_MAX, MEMBERS_MAX, PoolSettings, WAITING_MAX};
use crate::resolve::ResolverSettings;
use crate::sink::csv::CsvTuning;

const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Lengths of time, unless a part has bounds of its own.
const TIMES: RangeInclusive<Duration> = MILLISECOND..=DAY;

/// Numbers of things in memory.
const NUMBERS: RangeInclusive<u64> = 1..=1 << 24;

/// Bytes of things in memory.
const MEMORY: RangeInclusive<u64> = 1..=1 << 40;

/// Sections of all kinds and of any name, for tools that do not know the program.
pub fn sections(node: NodeBuilder) -> NodeBuilder {
    node.sections(RESOLVERS)
        .sections(LIMITS)
        .sections(OWNERS)
        .sections(POOLS)
        .sections(BATCHES)
        .sections(QUEUES)
        .sections(CACHES)
        .sections(CSV)
}

/// What is in force: what the code says, and over it what operators have set.
pub(crate) fn in_force<T>(services: &Services, section: Section<T>, name: &str, code: T) -> Result<T> {
    services.provided::<Settings>()?.section_named(section, name, code)
}

/// Resolvers.
pub(crate) const RESOLVERS: Section<ResolverSettings> = Section::<ResolverSettings>::new(
    "governance.resolvers",
    &[
        setting!("lease", Duration(ResolverSettings::LEASES), lease),
        setting!("remembered_max", Count(NUMBERS) as usize, remembered_max),
    ],
)
.with_check(ResolverSettings::check);

/// Limits of a rate and of a number.
pub(crate) const LIMITS: Section<LimiterSettings> = Section::<LimiterSettings>::new(
    "governance.limits",
    &[
        setting!("waiting_max", Count(NUMBERS) as usize, waiting_max),
        setting!("wait_max", Duration(TIMES), wait_max),
        setting!("lease", Duration(LEASE_MIN..=LEASE_MAX), lease),
    ],
);

/// Owners of resources, the members of pools among them.
pub(crate) const OWNERS: Section<OwnerSettings> = Section::<OwnerSettings>::new(
    "governance.owners",
    &[
        setting!("open_time_max", Duration(TIMES), open_time_max),
        setting!("job_time_max", Duration(TIMES), job_time_max),
        setting!("close_time_max", Duration(TIMES), close_time_max),
        setting!("check_interval", DurationLimit(TIMES) or none as Duration, check_interval),
        setting!("check_time_max", Duration(TIMES), check_time_max),
        setting!("backoff.first", Duration(MILLISECOND..=Backoff::LIMIT), backoff.first),
        setting!("backoff.max", Duration(MILLISECOND..=Backoff::LIMIT), backoff.max),
        setting!("stay_open", DurationLimit(TIMES) or none as Duration, stay_open),
    ],
)
.with_check(OwnerSettings::check);

/// Pools.
pub(crate) const POOLS: Section<PoolSettings> = Section::<PoolSettings>::new(
    "governance.pools",
    &[
        setting!("initial_size", Count(1..=MEMBERS_MAX as u64) as u32, initial_size),
        setting!("breaker.failures_max", Count(1..=1 << 20) as u32, breaker.failures_max),
        setting!("breaker.trial_successes", Count(1..=1 << 20) as u32, breaker.trial_successes),
        setting!("breaker.open_time.first", Duration(MILLISECOND..=Backoff::LIMIT), breaker.open_time.first),
        setting!("breaker.open_time.max", Duration(MILLISECOND..=Backoff::LIMIT), breaker.open_time.max),
        setting!("leases.time", Duration(MILLISECOND..=LEASE_TIME_MAX), leases.time),
        setting!("leases.waiting_max", Count(1..=WAITING_MAX as u64) as usize, leases.waiting_max),
        setting!("leases.ageing", Duration(MILLISECOND..=LEASE_TIME_MAX), leases.ageing),
    ],
)
.with_check(PoolSettings::check);

/// Batch executors.
pub(crate) const BATCHES: Section<BatchSettings> = Section::<BatchSettings>::new(
    "governance.batches",
    &[
        setting!("items_max", Count(1..=BatchSettings::ITEMS_LIMIT as u64) as usize, items_max),
        Key {
            name: "bytes_max",
            form: Form::BytesLimit(1..=BatchSettings::BYTES_LIMIT as u64),
            get: |batches| bytes_limit(batches.bytes_max),
            set: |batches, value| limit_bytes(batches.counts_bytes(), &mut batches.bytes_max, &value),
        },
        setting!("linger", Duration(Duration::ZERO..=BatchSettings::LINGER_LIMIT), linger),
        setting!("in_flight_max", Count(1..=BatchSettings::IN_FLIGHT_LIMIT as u64) as usize, in_flight_max),
        setting!("waiting_items_max", Count(1..=BatchSettings::ITEMS_LIMIT as u64) as usize, waiting_items_max),
        Key {
            name: "waiting_bytes_max",
            form: Form::BytesLimit(1..=BatchSettings::BYTES_LIMIT as u64),
            get: |batches| bytes_limit(batches.waiting_bytes_max),
            set: |batches, value| limit_bytes(batches.counts_bytes(), &mut batches.waiting_bytes_max, &value),
        },
        setting!("write_time_max", Duration(MILLISECOND..=BatchSettings::WRITE_TIME_LIMIT), write_time_max),
        setting!("retry.attempts_max", Count(1..=RetryPolicy::ATTEMPTS_LIMIT as u64) as u32, retry.attempts_max),
        setting!("retry.backoff_initial", Duration(BACKOFFS), retry.backoff_initial),
        setting!("retry.backoff_max", Duration(BACKOFFS), retry.backoff_max),
    ],
)
.with_check(BatchSettings::check);

/// Pauses between tries to write a batch.
const BACKOFFS: RangeInclusive<Duration> = MILLISECOND..=RetryPolicy::BACKOFF_LIMIT;

/// Durable queues.
pub(crate) const QUEUES: Section<DurableSettings> = Section::<DurableSettings>::new(
    "governance.queues",
    &[
        setting!("items_max", Count(1..=DurableSettings::BATCH_LIMIT) as u64, items_max),
        setting!("bytes_max", Bytes(MEMORY) as u64, bytes_max),
        setting!("linger", Duration(Duration::ZERO..=DAY), linger),
        setting!("waiting_items_max", Count(1..=DurableSettings::ITEMS_LIMIT) as u64, waiting_items_max),
        setting!("waiting_bytes_max", Bytes(MEMORY) as u64, waiting_bytes_max),
        setting!("write_time_max", Duration(MILLISECOND..=BatchSettings::WRITE_TIME_LIMIT), write_time_max),
        setting!("retry.backoff_initial", Duration(BACKOFFS), retry.backoff_initial),
        setting!("retry.backoff_max", Duration(BACKOFFS), retry.backoff_max),
        setting!("dead_letters_max", Count(0..=DurableSettings::DEAD_LETTERS_LIMIT as u64) as usize, dead_letters_max),
        setting!("look_after", Duration(TIMES), look_after),
    ],
)
.with_check(DurableSettings::check);

/// Caches. The number of shards, of which each needs its share, is that of the source.
pub(crate) const CACHES: Section<CacheSettings> = Section::<CacheSettings>::new(
    "governance.caches",
    &[
        setting!("fresh_for", Duration(CacheSettings::TIMES), fresh_for),
        setting!("refresh_ahead", DurationLimit(CacheSettings::TIMES) or none as Duration, refresh_ahead),
        setting!("absent_for", DurationLimit(CacheSettings::TIMES) or none as Duration, absent_for),
        setting!("stale_for", DurationLimit(CacheSettings::TIMES) or none as Duration, stale_for),
        setting!("entries_max", Count(1..=1 << 32) as usize, entries_max),
        setting!("bytes_max", Bytes(MEMORY) as usize, bytes_max),
        setting!("batch_max", Count(1..=1 << 20) as usize, batch_max),
        setting!("buffered_max", Count(NUMBERS) as usize, buffered_max),
        Key {
            name: "flush_after",
            form: Form::Duration(CacheSettings::TIMES),
            get: |cache| match cache.writes {
                WriteMode::Behind { flush_after } => Value::Duration(flush_after),
                WriteMode::Through => Value::None,
            },
            set: |cache, value| {
                if let (WriteMode::Behind { .. }, Value::Duration(flush_after)) = (cache.writes, value) {
                    cache.writes = WriteMode::Behind { flush_after };
                }
            },
        },
        setting!("attempts", Count(1..=1 << 20) as u32, attempts),
        setting!("retry_pause", Duration(CacheSettings::TIMES), retry_pause),
        setting!("source_timeout", Duration(CacheSettings::TIMES), source_timeout),
    ],
)
.with_check(|cache| cache.check(1));

/// Files of rows.
pub(crate) const CSV: Section<CsvTuning> = Section::<CsvTuning>::new(
    "governance.csv",
    &[
        setting!("folder", Path, folder),
        setting!("rotation.bytes_max", Bytes(1..=1 << 50) as u64, rotation.bytes_max),
        setting!("rotation.rows_max", Limit(1..=1 << 50) or none as Count, rotation.rows_max),
        setting!("rotation.age_max", DurationLimit(CacheSettings::TIMES) or none as Duration, rotation.age_max),
        setting!("lock_time_max", Duration(TIMES), lock_time_max),
    ],
);

fn bytes_limit(limit: Option<usize>) -> Value {
    limit.map_or(Value::None, |bytes| Value::Bytes(bytes as u64))
}

/// Limits bytes where the code counts them: where it does not, a limit has no meaning.
fn limit_bytes(are_counted: bool, limit: &mut Option<usize>, value: &Value) {
    match value {
        Value::Bytes(bytes) if are_counted => *limit = Some(usize::try_from(*bytes).unwrap_or(usize::MAX)),
        Value::None => *limit = None,
        _ => {}
    }
}

#[cfg(test)]
mod tests;
