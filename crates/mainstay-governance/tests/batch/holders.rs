//! Who writes a file: two who are not the same never write one, and whoever comes back with an old state takes nothing away.

use std::path::Path;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::batch::durable::{DurableBatch, DurableQueueRef};
use mainstay_governance::sink::csv::{CsvFolder, CsvRow, CsvSettings};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Visit {
    id: u64,
}

impl CsvRow for Visit {
    const OWNER: &'static str = "visit-files";
    const QUEUE: &'static str = "visit-queues";
}

type Files = CsvFolder<Visit>;
type Line = DurableQueueRef<Files>;

/// The rows of a key, in their order.
fn rows(folder: &Path, key: &str) -> Vec<u64> {
    let files = Files::new(CsvSettings::in_folder(folder)).files(key).unwrap();
    let readers = files.iter().map(|file| csv::Reader::from_path(file).unwrap());
    readers.flat_map(|reader| reader.into_deserialize::<Visit>().map(|row| row.unwrap().id)).collect()
}

/// Queues of one folder.
async fn start(folder: &Path) -> TestNode {
    let folder = folder.to_owned();
    let files = move || Files::new(CsvSettings::in_folder(&folder));
    TestNode::start(move |node| DurableBatch::serve(node, files())).await.unwrap()
}

/// The ids 5 and "5" are two actors, which would have one file, and each would cut off what it does not know.
#[tokio::test]
async fn a_queue_is_named_by_a_text_because_two_ids_must_not_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path()).await;
    let (text, number): (Line, Line) = (node.actor("5").unwrap(), node.actor(5).unwrap());
    let mut acknowledged = Vec::new();
    for id in 0..4 {
        for line in [&text, &number] {
            let id = 10 * acknowledged.len() as u64 + id;
            match line.append(Visit { id }).await {
                Ok(_) => {
                    acknowledged.push(id);
                    line.flush().await.unwrap();
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Invalid);
                    assert!(error.to_string().contains("visit-queues(5) is no queue"), "{error}");
                }
            }
        }
    }
    assert_eq!(rows(folder.path(), "5"), acknowledged, "each that was acknowledged");
}
