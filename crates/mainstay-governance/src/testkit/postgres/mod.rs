//! A PostgreSQL server of one's own.

mod account;
mod binaries;
mod options;
mod process;
mod server;

pub use options::PostgresOptions;
pub use process::Stop;
pub use server::PostgresServer;
