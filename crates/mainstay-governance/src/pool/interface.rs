//! What a pool's handles, its coordinator and its members say to each other.

use std::time::Duration;

use mainstay::actor::Deferred;
use mainstay::{Result, interface};
use serde::{Deserialize, Serialize};

use crate::owner::{Fence, Resource};
use crate::pool::{Coordination, MemberStatus, Pick, Priority};

/// How long a member may take to hear that leases are over. It finishes a job before.
pub(crate) const REVOKE_TIME_MAX: Duration = Duration::from_secs(60);

/// The actor that decides how large a pool is, and leases its members where it is to. Its id is the key of the pool.
#[interface]
pub(crate) trait Coordinator<R: Resource> {
    /// How large the pool is.
    async fn view(&self) -> Result<View>;

    /// Whether a member may open: asked before every opening, so that nobody who has an older view can make one too many.
    async fn admit(&self, index: u32) -> Result<Admission>;

    /// Makes the pool larger or smaller. Answered when no member above the new size is open.
    async fn resize(&mut self, size: u32) -> Result<Deferred<View>>;

    /// Leases a member. Answered when one is free and it is the caller's turn. Who asks is known by a number of its own.
    async fn acquire(&mut self, priority: Priority, applicant: u64) -> Result<Deferred<Grant>>;

    /// Somebody does not wait for a lease any more. What was given already is to be released.
    async fn withdraw(&mut self, applicant: u64) -> Result<()>;

    /// Renews the lease of a member: the time that it has left, or none if it is over.
    async fn renew(&mut self, index: u32, token: u64) -> Result<Option<Duration>>;

    /// Ends the lease of a member, which is left alone for a while. Said by a holder whose lease is not over.
    async fn release(&mut self, index: u32, token: u64, rest: Duration) -> Result<()>;

    /// Whether a token is that of the lease of a member: asked by a member that has just been activated.
    async fn is_current(&mut self, index: u32, token: u64) -> Result<bool>;

    /// What it knows of the pool.
    async fn status(&self) -> Result<CoordinatorStatus>;
}

/// The actor that holds one of the resources of a pool. Its id is the key of the pool and a number: `orders/3`.
#[interface]
pub(crate) trait Member<R: Resource> {
    /// Does a job, or hands it back and says why.
    async fn run(&mut self, ticket: JobTicket, job: R::Job) -> Result<Ran<R>>;

    /// It does not belong to the pool any more, as of this version: closes the resource, after what came before.
    async fn retire(&mut self, version: u64) -> Result<()>;

    /// The pool has this version: callers that go by an older one are to know.
    async fn hear(&mut self, version: u64) -> Result<()>;

    /// Leases with tokens up to this one are over. Answered when nothing of their holders is left in the resource.
    async fn revoke(&mut self, token: u64) -> Result<()>;

    /// What it is like.
    async fn status(&self) -> Result<MemberStatus>;
}

/// How large a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct View {
    /// Rises whenever the size changes.
    pub(crate) version: u64,
    pub(crate) size: u32,
    pub(crate) coordination: Coordination,
    pub(crate) pick: Pick,
}

/// Whether a member may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Admission {
    pub(crate) is_member: bool,
    /// As of which version.
    pub(crate) version: u64,
}

/// A lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) index: u32,
    pub(crate) token: u64,
    /// How long it lasts unless it is renewed.
    pub(crate) time: Duration,
}

/// What a job is admitted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobTicket {
    /// Of the view by which the member was picked.
    pub(crate) version: u64,
    /// The token of the lease.
    pub(crate) lease: Option<u64>,
    /// The token of the opening that the lease has had jobs done by: what it has begun there is not anywhere else.
    pub(crate) opening: Option<Fence>,
}

/// What became of a job.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) enum Ran<R: Resource> {
    /// By which opening, and with the latest version of the pool that the member knows of.
    Done { reply: R::Reply, opening: Fence, version: u64 },
    /// It has not begun: another may do it.
    Refused(R::Job, Refusal),
}

/// Why a member does not do a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// It does not belong to the pool any more, as of this version.
    Retired { version: u64 },
    /// It has failed, and is left alone for a while.
    Resting { left: Duration, cause: String },
    /// The lease is over.
    LeaseOver,
    /// The resource was closed since the last job of the lease, and with it what that has begun.
    Reopened,
}

/// What a coordinator knows of its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CoordinatorStatus {
    pub(crate) view: View,
    /// Members from the size up to this one may still be open.
    pub(crate) open_below: u32,
    pub(crate) leased: usize,
    pub(crate) waiting: usize,
}
