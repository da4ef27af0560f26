//! Durable appends to the bare node log.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_store::disk::RealDisk;
use mainstay_store::log::{GroupId, LogBatch, LogOptions, NodeLog, SegmentLog};
use tokio::sync::oneshot;

use super::payload;
use crate::contest::Contest;
use crate::load::{Load, Writer, runtime};
use crate::measurement::Unit;
use crate::outcome::Outcome;
use crate::report::Report;

pub(super) const OURS: &str = "log";
pub(super) const RAFT_ENGINE: &str = "log raft-engine";

pub(super) fn enter(contest: &mut Contest, load: Load) {
    contest.enter(OURS, Unit::PerSecond, move |folder| append(folder, load));
}

#[cfg(feature = "peer-raft-engine")]
pub(super) fn enter_peers(contest: &mut Contest, load: Load, _: &mut Report) {
    contest.enter(RAFT_ENGINE, Unit::PerSecond, move |folder| super::peers::raft_engine::append(folder, load));
}

#[cfg(not(feature = "peer-raft-engine"))]
pub(super) fn enter_peers(_: &mut Contest, _: Load, report: &mut Report) {
    report.note("not measured: log-vs-raft-engine (build with --features peers-native)");
}

/// Each writer has a group of its own and waits until its entry is durable.
fn append(folder: &Path, load: Load) -> Outcome<f64> {
    let runtime = runtime()?;
    let log: Arc<dyn NodeLog> = Arc::new(SegmentLog::open(Arc::new(RealDisk), folder, LogOptions::default())?);
    let writers = (0..load.writers).map(|writer| Appender { log: log.clone(), writer });
    runtime.block_on(load.on_tasks(writers))
}

struct Appender {
    log: Arc<dyn NodeLog>,
    writer: usize,
}

impl Writer for Appender {
    async fn write(&mut self, turn: u64) -> Outcome<()> {
        let entry = Bytes::copy_from_slice(&payload::value(self.writer, turn));
        let mut batch = LogBatch::new();
        batch.append(GroupId(self.writer as u64), turn + 1, vec![entry]);
        let (done, durable) = oneshot::channel();
        self.log.submit(batch, Box::new(move |result| drop(done.send(result)))).map_err(|refused| refused.error)?;
        durable.await??;
        Ok(())
    }
}
