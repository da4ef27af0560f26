use mainstay_core::random;
use mainstay_core::time::Duration;
use mainstay_replica::{ReplicaOptions, Timing, Troubles};
use mainstay_store::log::{Driver, LogOptions, SyncDelay};
use mainstay_store::state::DiskStoreOptions;
use rand::RngExt as _;

/// What a seed decides before anything happens.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// How many replicas the set is founded with.
    pub replicas: u64,
    /// How many clients commit and read.
    pub clients: u64,
    /// How many registers they share.
    pub shared_registers: u64,
    /// How long things are made to go wrong.
    pub chaos: Duration,
    /// How the network is when nobody spoils it.
    pub calm: Troubles,
    /// The largest value that a client writes.
    pub value_bytes_max: usize,
    /// How the replicas behave: small limits, so that everything happens often.
    pub replica: ReplicaOptions,
    /// How the node logs behave.
    pub log: LogOptions,
    /// How the stores behave.
    pub store: DiskStoreOptions,
}

impl Scenario {
    /// Draws a scenario from the thread's generator.
    pub fn draw() -> Self {
        let mut rng = random::rng();
        let mut replica = ReplicaOptions {
            timing: Timing {
                heartbeat: Duration::from_millis(100),
                election_timeout_min: Duration::from_millis(350),
                election_timeout_max: Duration::from_millis(700),
            },
            ..ReplicaOptions::default()
        };
        replica.checkpoint.bytes = rng.random_range(4 << 10..64 << 10);
        replica.checkpoint.interval = Duration::from_millis(rng.random_range(500..5_000));
        replica.checkpoint.unsaved_bytes_max = 4 << 20;
        replica.checkpoint.log_keep_bytes = rng.random_range(0..16 << 10);
        replica.commit.entries_in_flight_max = rng.random_range(1..=8);
        replica.commit.entry_bytes_max = rng.random_range(256..8 << 10);
        let sync_delay =
            SyncDelay { min: Duration::from_micros(50), max: Duration::from_micros(rng.random_range(100..8_000)) };
        Self {
            replicas: if rng.random_bool(0.6) { 3 } else { 5 },
            clients: rng.random_range(2..=6),
            shared_registers: rng.random_range(1..=3),
            chaos: Duration::from_millis(rng.random_range(3_000..10_000)),
            calm: Troubles {
                delay_min: Duration::from_micros(100),
                delay_max: Duration::from_micros(rng.random_range(200..5_000)),
                ..Troubles::default()
            },
            value_bytes_max: rng.random_range(16..1_024),
            replica,
            log: LogOptions {
                segment_bytes: 64 << 10,
                log_bytes_max: 512 << 10,
                driver: Driver::Task { sync_delay },
                ..LogOptions::default()
            },
            store: DiskStoreOptions { cache_bytes_max: 1 << 20, ..DiskStoreOptions::default() },
        }
    }
}
