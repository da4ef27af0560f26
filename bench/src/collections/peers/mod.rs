//! The same read-modify-write by others. Each is used as its own documentation recommends for durable transactions from
//! many threads, and with its defaults otherwise; all of them start with the same records, as plain bytes.

pub(super) mod fjall;
pub(super) mod redb;
pub(super) mod sqlite;

use crate::load::Load;
use crate::outcome::Outcome;
use crate::shuffled::Shuffled;

/// Transactions per second, each caller a thread with keys of its own.
fn on_threads(load: Load, keys: &[String], change: impl Fn(&str) -> Outcome<()> + Sync) -> Outcome<f64> {
    let deal = |caller| std::sync::Mutex::new(Shuffled::of_caller(caller, load.writers, keys.len()));
    let orders: Vec<_> = (0..load.writers).map(deal).collect();
    load.on_threads(|caller, _| {
        // Never waits: a caller's order is its own.
        let number = orders[caller].lock().map_err(|_| "a caller panicked")?.next();
        change(&keys[number])
    })
}
