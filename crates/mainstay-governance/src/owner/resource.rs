use std::future::{Future, ready};

use mainstay::node::{NodeBuilder, Settings};
use mainstay::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::owner::{Opening, OwnerSettings};
use crate::pool::PoolSettings;

/// What [`Resource::reset`] has made of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reset {
    /// Nothing is left of whoever had it before: it may be used on.
    Clean,
    /// It is to be closed and opened again.
    Reopen,
}

/// Something of which there is little, and which few may hold: a file, a connection, an account.
///
/// A value of the type says how it is opened and used; there is one per process, given to the node by
/// `Node::builder().provide(..)`. What it opens is held by a [`ResourceOwner`](crate::owner::ResourceOwner), or by the
/// members of a [`ResourcePool`](crate::pool::ResourcePool), and by nobody else.
///
/// To be correct:
/// - Whatever can be fenced is given [`Opening::fence`]: it opens only for one that is larger than the highest it has seen, and
///   refuses to be written with a smaller one, by an error that says what it [remembers](crate::owner::Fence::remembered), so
///   that an owner whose counter was lost can go on. What only one may have at all refuses another
///   [holder](Opening::holder) as well: [`Claim`](crate::owner::Claim).
/// - A dropped handle lets go of the real thing, at once or soon: [`close`](Resource::close) is skipped when the process
///   ends, and when a turn is cut off in the middle. What lets go of it later than it is dropped says so by
///   [`gone`](Resource::gone), and so does what is left of a future that was dropped.
/// - An error of [`run`](Resource::run) tells by its kind whether the job may have happened (`OutcomeUnknown`) or has not
///   (`Retry`), and by [`breaks`](Resource::breaks) whether the handle is still good.
pub trait Resource: Send + Sync + Sized + 'static {
    /// The name of the service of its owners. It is recorded with their data, and so is not to be changed later.
    const NAME: &'static str;

    /// What is open: the connection, the file.
    type Handle: Send + 'static;

    /// What is to be done with it.
    type Job: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// What comes of it.
    type Reply: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Opens the real thing. It is given up when it takes longer than [`OwnerSettings::open_time_max`].
    fn open(&self, opening: &Opening) -> impl Future<Output = Result<Self::Handle>> + Send;

    /// Does a job. It has the handle to itself, and is given up when it takes longer than [`OwnerSettings::job_time_max`],
    /// which ends the handle too.
    fn run(&self, handle: &mut Self::Handle, job: Self::Job) -> impl Future<Output = Result<Self::Reply>> + Send;

    /// Says whether the handle is still good, when nobody uses it. A handle that is not is closed and opened again.
    fn check(&self, handle: &mut Self::Handle) -> impl Future<Output = Result<()>> + Send {
        let _ = handle;
        ready(Ok(()))
    }

    /// Makes a handle as it was when it was opened, because the member of a pool that has it passes from one holder of a
    /// lease to the next: a transaction that was begun, a setting, a lock are nothing that the next one may find. What cannot
    /// be sure of that says so by [`Reset::Reopen`], which is the default: the handle is closed, and opened again for the
    /// next job. An error does the same, and so does taking longer than [`OwnerSettings::check_time_max`].
    fn reset(&self, handle: &mut Self::Handle) -> impl Future<Output = Result<Reset>> + Send {
        let _ = handle;
        ready(Ok(Reset::Reopen))
    }

    /// Closes the real thing. The next opening waits until this has ended, or has taken [`OwnerSettings::close_time_max`].
    fn close(&self, handle: Self::Handle) -> impl Future<Output = ()> + Send {
        drop(handle);
        ready(())
    }

    /// Returns when nothing is left of openings, jobs and closings of a key that were given up before their end: a connection that
    /// was being made may be there for all that is known. The next opening waits for this, and so does a pool that becomes
    /// smaller, so that there are never more than there are to be. Unless told otherwise nothing is ever left.
    fn gone(&self, opening: &Opening) -> impl Future<Output = ()> + Send {
        let _ = opening;
        ready(())
    }

    /// True if a job that has failed like this leaves a handle that is not to be used any more. Unless told otherwise these
    /// are the errors that do not blame the job: `Retry`, `Timeout`, `NotPrimary` (a stale fencing token),
    /// `OutcomeUnknown`, `Corrupt` and `Fatal`.
    fn breaks(&self, error: &Error) -> bool {
        use ErrorKind::{Corrupt, Fatal, NotPrimary, OutcomeUnknown, Retry, Timeout};
        matches!(error.kind(), Retry | Timeout | NotPrimary { .. } | OutcomeUnknown | Corrupt | Fatal)
    }

    /// Gives the node [sections](mainstay::node::settings::Section) of settings of its own, where it is served. Those of owners
    /// and pools are there already.
    fn sections(&self, node: NodeBuilder) -> NodeBuilder {
        node
    }

    /// Takes what operators have set in its own sections: before anything is opened, once for each owner that becomes active.
    ///
    /// # Errors
    /// What keeps it from being used like this.
    fn configure(&self, settings: &Settings) -> Result<()> {
        let _ = settings;
        Ok(())
    }

    /// How its owners behave, unless operators have set it otherwise.
    fn owner_settings(&self) -> OwnerSettings {
        OwnerSettings::default()
    }

    /// How a pool of it behaves, unless operators have set it otherwise.
    fn pool_settings(&self) -> PoolSettings {
        PoolSettings::default()
    }
}
