//! What nodes cost while nobody asks for anything.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mainstay_core::{NodeId, time};
use mainstay_replica::{InProcessNetwork, SETS_PER_LEVEL, UniformSets, UniformSetsOptions};
use mainstay_store::disk::RealDisk;

use super::cluster::Cluster;
use crate::contest::Contest;
use crate::goal::Target;
use crate::load::runtime;
use crate::measurement::Unit;
use crate::outcome::Outcome;
use crate::process::{cpu_time, figure};
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::stopwatch::Stopwatch;

/// How long elections and first checkpoints are given before it counts.
const SETTLE: Duration = Duration::from_secs(3);

/// How long nothing is done.
const SPAN: Duration = Duration::from_secs(5);

const CLUSTER: &str = "idle, 8 sets x 3 replicas";
const NODE: &str = "idle, one node";

pub(super) fn run(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let [settle, span] = [SETTLE, SPAN].map(|full| settings.span(full).as_secs_f64().to_string());
    let mut contest = Contest::new();
    for (name, what) in [(CLUSTER, "idle-cluster"), (NODE, "idle-node")] {
        let (settle, span) = (settle.clone(), span.clone());
        contest.enter(name, Unit::Percent, move |folder| {
            figure(&["foundations", what, &folder.display().to_string(), &settle, &span])
        });
    }
    let results = contest.run(settings.rounds(), scratch)?;
    report.goal(results.get(CLUSTER).map(|found| found.named("idle-8-sets-3-replicas")), Target::Under(2.0));
    report.goal(results.get(NODE).map(|found| found.named("idle-one-node")), Target::Under(0.2));
    report.group("idle, of one core", results.into_measurements());
    Ok(())
}

/// Three nodes in one process.
pub(super) fn cluster(folder: &Path, settle: Duration, span: Duration) -> Outcome<Vec<f64>> {
    runtime()?.block_on(async {
        let cluster = Cluster::start(folder, 3, SETS_PER_LEVEL).await?;
        let share = share_of_core(settle, span).await;
        cluster.stop().await;
        Ok(vec![share])
    })
}

/// A node as a program has it, with its sets of all levels and nobody else.
pub(super) fn node(folder: &Path, settle: Duration, span: Duration) -> Outcome<Vec<f64>> {
    runtime()?.block_on(async {
        let node = NodeId(1);
        let transport = InProcessNetwork::new().endpoint(node);
        let replicas = UniformSets::open(Arc::new(RealDisk), folder, UniformSetsOptions::new(node), transport).await?;
        replicas.bootstrap().await?;
        let share = share_of_core(settle, span).await;
        replicas.stop().await;
        Ok(vec![share])
    })
}

/// The percentage of one core that this process uses.
async fn share_of_core(settle: Duration, span: Duration) -> f64 {
    time::sleep(settle).await;
    let (watch, before) = (Stopwatch::start(), cpu_time());
    time::sleep(span).await;
    let spent = cpu_time().saturating_sub(before);
    100.0 * spent.as_secs_f64() / watch.seconds()
}
