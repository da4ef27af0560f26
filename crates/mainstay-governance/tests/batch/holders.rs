//! Who writes a file: two who are not the same never write one, and whoever comes back with an old state takes nothing away.

use std::path::Path;
use std::time::Duration;

use mainstay::node::NodeBuilder;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::batch::durable::{DurableBatch, DurableQueueRef, DurableSettings};
use mainstay_governance::owner::{OwnerRef, ResourceOwner};
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

fn visits(ids: std::ops::Range<u64>) -> Vec<Visit> {
    ids.map(|id| Visit { id }).collect()
}

/// The rows of a key, in their order.
fn rows(folder: &Path, key: &str) -> Vec<u64> {
    let files = Files::new(CsvSettings::in_folder(folder)).files(key).unwrap();
    let readers = files.iter().map(|file| csv::Reader::from_path(file).unwrap());
    readers.flat_map(|reader| reader.into_deserialize::<Visit>().map(|row| row.unwrap().id)).collect()
}

/// Owners and queues of one folder.
async fn start(folder: &Path) -> TestNode {
    let folder = folder.to_owned();
    TestNode::start(move |node| both(node, &folder)).await.unwrap()
}

fn both(node: NodeBuilder, folder: &Path) -> NodeBuilder {
    DurableBatch::serve(node, Files::new(CsvSettings::in_folder(folder))).actor::<ResourceOwner<Files>>()
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

/// An owner and a queue of one folder and one key.
#[tokio::test]
async fn an_owner_and_a_queue_do_not_write_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path()).await;
    let (owner, line): (OwnerRef<Files>, Line) = (node.actor("visits").unwrap(), node.actor("visits").unwrap());
    owner.run(visits(0..1)).await.unwrap();
    for id in 1..6 {
        line.append(Visit { id: 100 + id }).await.unwrap();
        node.advance(Duration::from_secs(60)).await;
        owner.run(visits(id..id + 1)).await.unwrap();
    }
    assert_eq!(rows(folder.path(), "visits"), [0, 1, 2, 3, 4, 5]);
    let status = line.status().await.unwrap();
    assert_eq!((status.waiting, status.dead_letters), (5, 0), "what cannot be written waits, and no item is blamed");
    let error = status.last_error.unwrap();
    for text in ["visit-files(\"visits\")", "visit-queues(\"visits\")", "visits-owner.fence", "another key"] {
        assert!(error.contains(text), "{text}: {error}");
    }
    // The other way round.
    let (owner, line): (OwnerRef<Files>, Line) = (node.actor("clicks").unwrap(), node.actor("clicks").unwrap());
    line.append(Visit { id: 0 }).await.unwrap();
    line.flush().await.unwrap();
    let error = format!("{:?}", owner.run(visits(1..2)).await.unwrap_err());
    assert!(error.contains("visit-files(\"clicks\")") && error.contains("visit-queues(\"clicks\")"), "{error}");
    assert_eq!(rows(folder.path(), "clicks"), [0]);
}

/// Handed over as the error says, by deleting the file that says whose the rows are, and back.
#[tokio::test]
async fn a_file_that_was_handed_over_and_back_keeps_what_the_other_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path()).await;
    let hand_over = || std::fs::remove_file(folder.path().join("visits-owner.fence")).unwrap();
    let mut wanted = Vec::new();
    for round in 0..3 {
        let line: Line = node.actor("visits").unwrap();
        line.append(Visit { id: 10 * round }).await.unwrap();
        line.flush().await.unwrap();
        node.kill().await.unwrap();
        hand_over();
        let owner: OwnerRef<Files> = node.actor("visits").unwrap();
        owner.run(visits(10 * round + 1..10 * round + 4)).await.unwrap();
        node.kill().await.unwrap();
        hand_over();
        wanted.extend(10 * round..10 * round + 4);
    }
    assert_eq!(rows(folder.path(), "visits"), wanted);
}

/// The same while the first one runs: it has the deleted file open, and its lock keeps nobody out.
#[tokio::test]
async fn a_writer_that_runs_while_its_file_is_handed_over_writes_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path()).await;
    let (owner, line): (OwnerRef<Files>, Line) = (node.actor("visits").unwrap(), node.actor("visits").unwrap());
    line.append(Visit { id: 0 }).await.unwrap();
    line.flush().await.unwrap();
    std::fs::remove_file(folder.path().join("visits-owner.fence")).unwrap();
    owner.run(visits(1..3)).await.unwrap();
    line.append(Visit { id: 100 }).await.unwrap();
    node.advance(Duration::from_secs(60)).await;
    owner.run(visits(3..4)).await.unwrap();
    assert_eq!(rows(folder.path(), "visits"), [0, 1, 2, 3]);
    let status = line.status().await.unwrap();
    assert_eq!((status.waiting, status.dead_letters), (1, 0));
    assert!(status.last_error.unwrap().contains("visit-files(\"visits\")"));
}

/// A folder that is none for a while: a mount that broke, with a file in its place.
#[tokio::test]
async fn rows_that_were_acknowledged_wait_while_their_folder_is_no_folder() {
    let outside = tempfile::tempdir().unwrap();
    let (folder, away) = (outside.path().join("csv"), outside.path().join("away"));
    let node = start(&folder).await;
    let line: Line = node.actor("visits").unwrap();
    line.append(Visit { id: 0 }).await.unwrap();
    line.flush().await.unwrap();
    std::fs::rename(&folder, &away).unwrap();
    std::fs::write(&folder, "").unwrap();
    line.append_all(visits(1..4)).await.unwrap();
    node.advance(Duration::from_secs(60)).await;
    let status = line.status().await.unwrap();
    assert_eq!((status.waiting, status.dead_letters), (3, 0), "{status:?}");
    assert!(status.failures > 0);
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&away, &folder).unwrap();
    line.flush().await.unwrap();
    assert_eq!(rows(&folder, "visits"), [0, 1, 2, 3]);
}

/// A row whose bytes are not in itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Page {
    text: String,
}

impl CsvRow for Page {
    const OWNER: &'static str = "page-files";
    const QUEUE: &'static str = "page-queues";
}

#[tokio::test]
async fn long_rows_count_with_all_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let queues =
        DurableSettings { linger: Duration::from_secs(5), waiting_bytes_max: 100_000, ..DurableSettings::default() };
    let path = folder.path().to_owned();
    let node = TestNode::start(move |node| {
        let files = CsvFolder::<Page>::new(CsvSettings::in_folder(&path)).with_queues(queues.clone());
        DurableBatch::serve(node, files)
    });
    let node = node.await.unwrap();
    let line: DurableQueueRef<CsvFolder<Page>> = node.actor("pages").unwrap();
    let page = || Page { text: "x".repeat(30_000) };
    for _ in 0..3 {
        line.append(page()).await.unwrap();
    }
    assert_eq!(line.append(page()).await.unwrap_err().kind(), ErrorKind::Overloaded);
    let status = line.status().await.unwrap();
    assert!((90_000..91_000).contains(&status.waiting_bytes), "{status:?}");
    line.flush().await.unwrap();
    assert_eq!(line.status().await.unwrap().waiting_bytes, 0);
    line.append(page()).await.unwrap();
}

/// A new folder of data beside old files: the files remember a higher token than the queue has.
#[tokio::test]
async fn a_queue_that_begins_anew_goes_on_behind_the_rows_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut wanted = Vec::new();
    for round in 0..3 {
        let mut node = start(folder.path()).await;
        for id in 0..5 {
            let line: Line = node.actor("visits").unwrap();
            line.append(Visit { id: 10 * round + id }).await.unwrap();
            line.flush().await.unwrap();
            wanted.push(10 * round + id);
            node.kill().await.unwrap();
        }
    }
    assert_eq!(rows(folder.path(), "visits"), wanted);
}

/// An actor that was deleted begins anew in the same way.
#[tokio::test]
async fn a_queue_that_was_deleted_goes_on_behind_the_rows_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path()).await;
    let mut wanted = Vec::new();
    for round in 0..3 {
        for id in 0..3 {
            let line: Line = node.actor("visits").unwrap();
            line.append(Visit { id: 10 * round + id }).await.unwrap();
            line.flush().await.unwrap();
            wanted.push(10 * round + id);
            node.kill().await.unwrap();
        }
        node.actor::<Line>("visits").unwrap().delete_actor().await.unwrap();
    }
    assert_eq!(rows(folder.path(), "visits"), wanted);
}

/// A backup knows a mark that is long past. What was acknowledged since must not be cut off.
#[tokio::test]
async fn a_queue_that_was_restored_from_a_backup_cuts_off_no_row_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (data, backup, csv) = (folder.path().join("data"), folder.path().join("backup"), folder.path().join("csv"));
    let run = async |ids: std::ops::Range<u64>| {
        // Each with a node and an opening of its own.
        for id in ids {
            let node = both(Node::builder().isolated().data_dir(&data), &csv).start().await.unwrap();
            let line: Line = node.actor("visits").unwrap();
            line.append(Visit { id }).await.unwrap();
            line.flush().await.unwrap();
            node.stop().await;
        }
    };
    run(0..2).await;
    copy(&data, &backup);
    run(2..6).await;
    std::fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    run(6..9).await;
    assert_eq!(rows(&csv, "visits"), Vec::from_iter(0..9));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}
