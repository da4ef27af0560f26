//! An executor that ends with its node.

use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::batch::{self, BatchExecutor, BatchSettings, BatchWriter};
use mainstay_governance::owner::{Opening, OwnerRef, Resource, ResourceOwner};
use parking_lot::Mutex;

/// Lines, written through an owner: that it can be called when the executor is closed.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u64>>>);

impl Resource for Lines {
    const NAME: &'static str = "lines";
    type Handle = ();
    type Job = Vec<u64>;
    type Reply = Vec<()>;

    async fn open(&self, _: &Opening) -> Result<()> {
        Ok(())
    }

    async fn run(&self, (): &mut (), lines: Vec<u64>) -> Result<Vec<()>> {
        self.0.lock().extend_from_slice(&lines);
        Ok(vec![(); lines.len()])
    }
}

/// Longer than any test takes.
fn patient() -> BatchSettings {
    BatchSettings { linger: Duration::from_secs(600), ..BatchSettings::default() }
}

#[tokio::test]
async fn a_node_that_stops_in_order_has_its_executors_write_what_they_have() {
    let (folder, lines) = (tempfile::tempdir().unwrap(), Lines::default());
    let node = ResourceOwner::serve(Node::builder().isolated().data_dir(folder.path()), lines.clone());
    let node = batch::serve(node).start().await.unwrap();
    let owner: OwnerRef<Lines> = node.actor("lines").unwrap();
    let executor = BatchExecutor::<u64>::start("lines", owner, patient()).unwrap().closes_with(&node).unwrap();
    let gone = BatchExecutor::<u64>::start("gone", Never, patient()).unwrap().closes_with(&node).unwrap();
    drop(gone);
    let submitted: Vec<_> = (0..5).map(|line| executor.try_submit(line).unwrap()).collect();
    node.stop().await;
    assert_eq!(*lines.0.lock(), [0, 1, 2, 3, 4]);
    for line in submitted {
        line.await.unwrap();
    }
    let error = executor.submit(5).await.unwrap_err();
    assert!(error.to_string().contains("is closed"), "{error}");
}

#[tokio::test]
async fn a_node_that_does_not_serve_executors_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::builder().isolated().data_dir(folder.path()).start().await.unwrap();
    let executor = BatchExecutor::<u64>::start("lines", Never, patient()).unwrap();
    let error = executor.closes_with(&node).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let text = "no node closes batch executor `lines`; build the node with `batch::serve(builder)`";
    assert_eq!(error.to_string(), text);
    node.stop().await;
}

/// Nothing is given to it.
struct Never;

impl BatchWriter<u64> for Never {
    async fn write(&self, _: &[u64]) -> Result<Vec<()>> {
        Err(Error::fatal("nothing was to be written"))
    }
}
