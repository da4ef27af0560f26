//! A queue before files that somebody has damaged.

use std::fs;
use std::time::Duration;

use mainstay::testkit::TestNode;
use mainstay_governance::batch::durable::{DurableBatch, DurableQueueRef};
use mainstay_governance::sink::csv::{CsvFolder, CsvRow, CsvSettings};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Visit {
    page: String,
}

impl CsvRow for Visit {
    const OWNER: &'static str = "visit-files";
    const QUEUE: &'static str = "visit-queues";
}

type Queue = DurableQueueRef<CsvFolder<Visit>>;

fn visit(number: u32) -> Visit {
    Visit { page: format!("page {number}") }
}

#[tokio::test]
async fn a_queue_says_that_its_file_is_damaged_and_goes_on_when_it_was_mended() {
    let folder = tempfile::tempdir().unwrap();
    let settings = CsvSettings::in_folder(folder.path());
    let start = move |node| DurableBatch::serve(node, CsvFolder::<Visit>::new(settings.clone()));
    let mut node = TestNode::start(start).await.unwrap();
    let queue: Queue = node.actor("visits").unwrap();
    for number in 0..1000 {
        queue.append(visit(number)).await.unwrap();
    }
    queue.flush().await.unwrap();
    let path = folder.path().join("visits-000001.csv");
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[83] = b'"';
    fs::write(&path, &damaged).unwrap();

    node.restart().await.unwrap();
    let queue: Queue = node.actor("visits").unwrap();
    let number = queue.append(visit(1000)).await.unwrap();
    let status = loop {
        let status = queue.status().await.unwrap();
        if status.failures > 2 {
            break status;
        }
        node.advance(Duration::from_secs(1)).await;
    };
    assert!(status.is_stuck && status.waiting == 1, "{status:?}");
    let error = status.last_error.unwrap();
    assert!(error.contains("visits-000001.csv is damaged at byte 8"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), damaged, "nothing was cut off");

    fs::write(&path, &whole).unwrap();
    queue.written(number).await.unwrap();
    assert!(!queue.status().await.unwrap().is_stuck);
    let rows = fs::read_to_string(&path).unwrap();
    assert!(rows.ends_with("page 999\npage 1000\n") && rows.lines().count() == 1002, "{}", rows.lines().count());
}
