use mainstay::{Result, interface};

use crate::owner::{OwnerStatus, Resource};

/// What callers see of the one owner of a resource. The id is the key of the resource, a text.
#[interface(served_by = "ResourceOwner::serve(builder, resource)")]
pub trait Owner<R: Resource> {
    /// Does a job on the resource, which is opened first if it is not. Jobs come one at a time, in the order of the calls.
    ///
    /// While it rests after a failure this fails at once, with `Retry` and when it is tried again, so that callers do not
    /// pile up before something that is down. The error of a job is that of the resource; `OutcomeUnknown` if it panicked or was
    /// given up, and then the resource is opened anew for the next.
    async fn run(&mut self, job: R::Job) -> Result<R::Reply>;

    /// What it is like. Waits for the job that is under way.
    async fn status(&self) -> Result<OwnerStatus>;
}
