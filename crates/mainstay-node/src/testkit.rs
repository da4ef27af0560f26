//! A node for the tests of applications.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use mainstay_core::time::{self, Duration, WallTime};
use mainstay_core::{Error, Result};
use mainstay_runtime::{CommitFault, CommitFaults, Services};
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::log::{Driver, SyncDelay};

use crate::builder::NodeBuilder;
use crate::node::Node;

/// The seed of the simulated disk, which decides what of an unfinished write survives a kill.
const SEED: u64 = 1;

/// The longest time that is slept at once: tokio ends what is longer than thirty years after thirty years.
const SLEEP_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A node in the process of a test, on a disk in memory and in virtual time: reminders and idle collection run without
/// waiting. It can be restarted, killed without warning, and made to fail its next commit.
///
/// Time goes from one thing that is due to the next, and nothing of the node wakes up in between: [`advance`](TestNode::advance)
/// takes as long as what happens in that time, and a year in which nothing is due takes no time worth mentioning.
///
/// It is a [`Node`] otherwise, which it dereferences to. It runs on tokio's runtime of one thread, whose clock it pauses:
/// `#[tokio::test]` is one.
pub struct TestNode {
    set_up: Box<dyn Fn(NodeBuilder) -> NodeBuilder + Send + Sync>,
    disk: SimDisk,
    faults: Arc<CommitFaults>,
    node: Node,
}

impl fmt::Debug for TestNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestNode").field("node", &self.node).finish_non_exhaustive()
    }
}

/// So that `CounterRef::of(&node, id)` makes a proxy.
impl AsRef<Services> for TestNode {
    fn as_ref(&self) -> &Services {
        self.node.services()
    }
}

impl Deref for TestNode {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl TestNode {
    /// Starts a node with what `set_up` gives it, which is asked again at every restart.
    ///
    /// # Errors
    /// As [`NodeBuilder::start`]; `Invalid` on a runtime of several threads, whose clock cannot be paused.
    pub async fn start(set_up: impl Fn(NodeBuilder) -> NodeBuilder + Send + Sync + 'static) -> Result<Self> {
        pause_clock().await?;
        // From here on this thread has a wall clock of its own, which tells when it is set and so need not be looked at.
        time::start_thread_wall(time::wall());
        let (set_up, disk, faults) = (Box::new(set_up), SimDisk::new(SEED), Arc::new(CommitFaults::default()));
        let node = boot(&*set_up, &disk, &faults).await?;
        Ok(Self { set_up, disk, faults, node })
    }

    /// Stops the node in order and starts it again.
    ///
    /// # Errors
    /// As [`NodeBuilder::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.node.stop().await;
        self.boot().await
    }

    /// Kills the node without warning, as if the power failed, and starts it again: what was not on disk is lost.
    ///
    /// # Errors
    /// As [`NodeBuilder::start`].
    pub async fn kill(&mut self) -> Result<()> {
        self.kill_for(Duration::ZERO).await
    }

    /// [Kills](TestNode::kill) the node, and starts it again after a while.
    ///
    /// # Errors
    /// As [`NodeBuilder::start`].
    pub async fn kill_for(&mut self, downtime: Duration) -> Result<()> {
        self.disk.crash();
        self.node.kill().await;
        self.disk.crash();
        pass(downtime).await;
        self.boot().await
    }

    /// Makes the next commit fail, of an actor's turn or of a service's transaction, as on a full disk: nothing of it happens, and
    /// its caller is told.
    pub fn fail_next_commit(&self) {
        self.fail_next_commits(1);
    }

    /// Makes the next commits of actors and services fail, this many. It replaces what was said before; zero takes it back.
    pub fn fail_next_commits(&self, commits: u32) {
        self.faults.fail_next(CommitFault::Refused, commits);
    }

    /// Makes the next commit of an actor or service fail in a certain way, such as with an unknown outcome. As when a commit
    /// is lost in a failover, the partition is opened anew then, from what is stored.
    pub fn fail_next_commit_with(&self, fault: CommitFault) {
        self.faults.fail_next(fault, 1);
    }

    /// Lets time pass. Whatever is due meanwhile happens, in its order and at its time: timers, reminders, the deactivation of
    /// idle actors, the removal of what has expired.
    ///
    /// Metrics are handed to the recorder of the process at its end, and not every second.
    pub async fn advance(&self, time: Duration) {
        pass(time).await;
        self.node.publish_metrics();
    }

    /// Sets the wall clock, forward or back, and no other: it shows this time now, and goes on from there. It is what reminders
    /// and times to live go by.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use mainstay_core::time::wall;
    /// # fn set(node: &mainstay_node::testkit::TestNode) {
    /// node.set_wall(wall().saturating_sub(Duration::from_secs(60 * 60))); // an hour back
    /// # }
    /// ```
    pub fn set_wall(&self, moment: WallTime) {
        time::start_thread_wall(moment);
    }

    /// The disk, for what a test wants to do to it.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    async fn boot(&mut self) -> Result<()> {
        self.node = boot(&*self.set_up, &self.disk, &self.faults).await?;
        Ok(())
    }
}

/// Lets time pass, however much it is.
async fn pass(time: Duration) {
    let mut left = time;
    while !left.is_zero() {
        let part = left.min(SLEEP_MAX);
        time::sleep(part).await;
        left -= part;
    }
}

async fn boot(
    set_up: &(dyn Fn(NodeBuilder) -> NodeBuilder + Send + Sync),
    disk: &SimDisk,
    faults: &Arc<CommitFaults>,
) -> Result<Node> {
    let builder = Node::builder().isolated().data_dir("/data").disk(Arc::new(disk.clone())).host_options(|options| {
        options.log.segment_bytes = 256 << 10;
        options.log.driver = Driver::Task { sync_delay: SyncDelay::default() };
        options.store.cache_bytes_max = 8 << 20;
    });
    set_up(builder).actor_options(|options| options.faults = Some(faults.clone())).publish_on_demand().start().await
}

/// Pauses tokio's clock, unless it is.
async fn pause_clock() -> Result<()> {
    let flavor = tokio::runtime::Handle::try_current().map(|runtime| runtime.runtime_flavor());
    if !matches!(flavor, Ok(tokio::runtime::RuntimeFlavor::CurrentThread)) {
        return Err(Error::invalid(
            "a `TestNode` pauses the clock, and so needs a runtime of one thread: use `#[tokio::test]` as it is",
        ));
    }
    // Pausing twice panics, and nothing tells whether it is paused but its standing still.
    let before = time::now();
    std::hint::spin_loop();
    tokio::task::yield_now().await;
    if time::now() != before {
        tokio::time::pause();
    }
    Ok(())
}
