//! What only the inside of the crate can see: openraft's own suites, and the wire formats against arbitrary bytes.

mod bundle;
mod committing;
mod epochs;
mod following;
mod growth;
mod joining;
mod leaving;
mod network;
mod overtaken;
mod peers;
mod repeating;
mod retaining;
mod runtime_suite;
mod snapshot_reception;
mod storage_suite;
mod ticking;
mod unhurried;
mod watching;
mod wire_formats;
