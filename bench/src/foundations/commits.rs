//! Durable commits on one replica, beside what embedded databases do with the same work.

use std::path::Path;
use std::sync::Arc;

use mainstay_core::{PartitionId, time};
use mainstay_replica::Partition;

use super::cluster::{Cluster, RETRY_PAUSE, is_passing};
use super::{payload, peers};
use crate::contest::{Contest, Results};
use crate::load::{Load, Writer, runtime};
use crate::measurement::{Measurement, Unit};
use crate::outcome::Outcome;
use crate::report::Report;

pub(super) const OURS: &str = "commit";
pub(super) const ROCKSDB: &str = "commit rocksdb";
const REDB: &str = "commit redb";
const FJALL: &str = "commit fjall";
const SQLITE: &str = "commit sqlite";

pub(super) fn enter(contest: &mut Contest, load: Load, report: &mut Report) {
    contest.enter(OURS, Unit::PerSecond, move |folder| commit(folder, load, 1, 1));
    contest.enter(REDB, Unit::PerSecond, move |folder| peers::redb::commit(folder, load));
    contest.enter(FJALL, Unit::PerSecond, move |folder| peers::fjall::commit(folder, load));
    contest.enter(SQLITE, Unit::PerSecond, move |folder| peers::sqlite::commit(folder, load));
    #[cfg(feature = "peer-rocksdb")]
    contest.enter(ROCKSDB, Unit::PerSecond, move |folder| peers::rocksdb::commit(folder, load));
    if cfg!(not(feature = "peer-rocksdb")) {
        report.note("not measured: commit-vs-rocksdb (build with --features peers-native)");
    }
}

/// Against whichever of the databases that are always built was fastest in the round.
pub(super) fn versus_best(results: &Results) -> Option<Measurement> {
    let best = results.largest([REDB, FJALL, SQLITE])?;
    Some(results.get(OURS)?.over(&best, "commit-vs-best-database"))
}

/// Commits per second; each writer has a partition of its own, and the sets share the writers.
pub(super) fn commit(folder: &Path, load: Load, nodes: u64, sets: u16) -> Outcome<f64> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let cluster = Arc::new(Cluster::start(folder, nodes, sets).await?);
        let mut writers = Vec::with_capacity(load.writers);
        for writer in 0..load.writers {
            let partition = cluster.partition(PartitionId(writer as u64)).await?;
            writers.push(Committer { cluster: cluster.clone(), partition, writer });
        }
        let rate = load.on_tasks(writers).await?;
        cluster.stop().await;
        Ok(rate)
    })
}

struct Committer {
    cluster: Arc<Cluster>,
    partition: Partition,
    writer: usize,
}

impl Writer for Committer {
    async fn write(&mut self, turn: u64) -> Outcome<()> {
        let (key, value) = (payload::key(self.writer, turn), payload::value(self.writer, turn));
        loop {
            let mut batch = self.partition.batch();
            batch.put(&key, &value);
            match self.partition.commit(batch).await {
                Ok(_) => return Ok(()),
                // What a caller would do, and what it costs counts: a commit that is refused takes its time.
                Err(error) if is_passing(&error) => {
                    time::sleep(RETRY_PAUSE).await;
                    self.partition = self.cluster.partition(self.partition.id()).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
