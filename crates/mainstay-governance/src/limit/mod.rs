//! A rate, or a number of things at once, kept by all nodes together.
//!
//! A service takes a hundred requests a second, a database thirty queries at once, of all callers together. A
//! [`RateLimiter`] and a [`ConcurrencyLimiter`] of one name share one limit across the cluster.
//!
//! ```
//! use mainstay::prelude::*;
//! use mainstay::governance::limit::{self, ConcurrencyLimiter, RateLimit, RateLimiter};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path();
//! let node = limit::serve(Node::builder().data_dir(folder)).start().await?;
//!
//! // At most 100 mails a second, and 20 at one go.
//! let mails = RateLimiter::open(&node, "mails", RateLimit::per_second(100).with_burst(20)).await?;
//! mails.acquire(1).await?; // waits its turn
//! assert!(mails.acquire(21).await.is_err(), "more than there can ever be");
//!
//! // At most 30 queries at once.
//! let queries = ConcurrencyLimiter::open(&node, "queries", 30).await?;
//! let permit = queries.acquire(1).await?;
//! // .. a query ..
//! drop(permit);
//! # node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # A permit does not cost a call
//!
//! One actor for each limit gives *shares* of it to the processes that want some. A permit is then taken from the share of
//! its process, in memory. A share is for what a process needs: the callers that wait in it, and what it has used lately. What
//! it does not use goes back, and what a process holds that died is free again when its lease has run out. Where there is
//! less than is wanted, processes are served in the order in which they asked, each with its part; within a process, callers
//! are served first come, first served, and beyond a bound they are refused as `Overloaded`.
//!
//! # What holds, exactly
//!
//! - **Rate**: over any length of time *t*, however it is chosen, all processes together take at most
//!   `burst + rate * t` permits. What is in a process counts as if it were in the bucket, so that holding it back
//!   gains nothing. After a restart or failover of the actor the bucket is empty, and nothing is given until every share of
//!   before has run out ([`LEASE`], and a quarter of it): what was given counts as used.
//! - **Concurrency**: at any time, all processes with a lease together have at most `limit` permits out. After a restart or
//!   failover of the actor nothing new is given until the processes that had shares have said so, or their leases have run
//!   out. A process that is cut off from the actor for longer than its lease counts as dead: it gives no new permits, and
//!   tells the holders of those that are out ([`Permit::lost`]), also when it stood still meanwhile or its machine was
//!   suspended. Those permits stay lost, though the process is heard of again. What is done in spite of that, no limiter can
//!   prevent; until it is over, it is not given to the same process once more.
//! - All limiters of one name that are opened on a node are one process here, and share a share. If the actor itself stood
//!   still, it takes no process for dead before each has had the time to be heard.
//! - A limit that is changed while it is in use ([`RateLimiter::set_limit`], [`ConcurrencyLimiter::set_limit`]) holds from
//!   then on for what is given; what is out stays out.
//!
//! This relies on clocks that run at about the same speed (a quarter of difference is allowed for), not on what they show.

mod line;

mod concurrency;
mod rate;

use std::time::Duration;

use mainstay::node::NodeBuilder;
use mainstay::{Error, Result};

use crate::lease::margin;
use crate::settings::LIMITS;

pub use concurrency::{ConcurrencyLimiter, PERMITS_MAX, Permit};
pub use rate::{RateLimit, RateLimiter};

/// For how long a share is good unless it is renewed, if nobody says otherwise: what a process that died holds is free again
/// a quarter later.
pub const LEASE: Duration = Duration::from_secs(1);

/// The shortest [`lease`](LimiterSettings::lease).
pub const LEASE_MIN: Duration = Duration::from_millis(50);
/// The longest [`lease`](LimiterSettings::lease).
pub const LEASE_MAX: Duration = Duration::from_secs(60 * 60);

/// How much longer than its holder the actor counts a lease as good: more than clocks differ in speed.
const MARGIN: Duration = margin(LEASE);

/// How many processes can share one limit.
pub const LIMIT_HOLDERS_MAX: usize = 4096;

/// The longest name of a limit.
pub const LIMIT_NAME_BYTES_MAX: usize = 256;

/// How a limiter is used from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimiterSettings {
    /// How many callers may wait in this process; beyond is `Overloaded`.
    pub waiting_max: usize,
    /// How long a caller waits unless it says otherwise.
    pub wait_max: Duration,
    /// For how long the share of a [`ConcurrencyLimiter`] is good unless it is renewed, [`LEASE_MIN`] to [`LEASE_MAX`]. A process
    /// that is held up for longer loses its permits; what a process holds that has died is free again a quarter later. Of several
    /// that are opened by one name on one node the shortest counts. Shares of a rate always last [`LEASE`].
    pub lease: Duration,
}

impl Default for LimiterSettings {
    fn default() -> Self {
        Self { waiting_max: 10_000, wait_max: Duration::from_secs(60), lease: LEASE }
    }
}

/// Lets a node serve the actors of limiters, of whatever name. Operators can set how each is used in `[governance.limits.NAME]`.
pub fn serve(builder: NodeBuilder) -> NodeBuilder {
    builder
        .sections(LIMITS)
        .provide(concurrency::Limiters::default())
        .actor::<rate::RateLimitActor>()
        .actor::<concurrency::ConcurrencyLimitActor>()
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > LIMIT_NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the name of a limit has {} bytes: use 1 to {LIMIT_NAME_BYTES_MAX} (LIMIT_NAME_BYTES_MAX)",
            name.len()
        )));
    }
    Ok(())
}
