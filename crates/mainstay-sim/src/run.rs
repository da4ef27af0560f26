use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mainstay_core::task::Scope;
use mainstay_core::{random, time};
use parking_lot::Mutex;

use crate::check;
use crate::client::{Client, Outcome};
use crate::cluster::Cluster;
use crate::event;
use crate::nemesis::{Counts, Nemesis};
use crate::panics::Panics;
use crate::planted::PlantedBug;
use crate::scenario::Scenario;
use crate::shared::SharedHistory;
use crate::trace::{Sink, Trace};

/// What to simulate.
#[derive(Default)]
pub struct Settings {
    /// Decides everything.
    pub seed: u64,
    /// A bug to plant.
    pub bug: Option<PlantedBug>,
    /// Where the events go, line by line.
    pub sink: Option<Sink>,
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// What a checker objected to first, if any did, or the first panic, if there was one.
    pub violation: Option<String>,
    /// Equal for two runs only if all their events are the same.
    pub digest: u64,
    /// How many events there were.
    pub events: u64,
    /// How many replicas the set was founded with.
    pub replicas: u64,
    /// Commits that were acknowledged before everything healed, as all that is counted here.
    pub acknowledged: u64,
    /// Commits whose outcome remained unknown to the client.
    pub unknown: u64,
    /// Reads that were served.
    pub reads: u64,
    /// Reads that were served and commits that were acknowledged of registers that clients share.
    pub shared: u64,
    /// What was done to the set.
    pub troubles: Counts,
    /// How much time passed in the simulation.
    pub simulated: time::Duration,
}

/// Simulates one seed, on the current thread.
///
/// # Panics
/// If the operating system cannot give a runtime.
#[allow(clippy::expect_used, reason = "a runtime without threads and sockets asks nothing of the system")]
pub fn run(settings: Settings) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread");
    let seed = settings.seed;
    random::seed_thread(seed);
    let scope = Scope::new();
    let panics = Panics::watch();
    let report = catch_unwind(AssertUnwindSafe(|| runtime.block_on(scope.enter(simulate(settings)))));
    scope.stop();
    // What is left of the tasks ends here, and may panic, too.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(runtime)));
    let mut report = report.unwrap_or_else(|_| Report { seed, ..Report::default() });
    if let Some(panic) = panics.first() {
        report.violation = Some(format!("panicked: {panic}"));
    } else if dropped.is_err() {
        report.violation.get_or_insert_with(|| "panicked at its end".to_owned());
    }
    report
}

async fn simulate(settings: Settings) -> Report {
    #[cfg(feature = "planted-bugs")]
    {
        use mainstay_replica::planted;
        planted::serve_reads_without_lease(settings.bug == Some(PlantedBug::ReadWithoutLease));
        planted::serve_unsettled(settings.bug == Some(PlantedBug::ServeUnsettled));
    }
    let start = time::now();
    let scenario = Scenario::draw();
    let trace = Trace::new(settings.sink);
    event!(trace, "seed {}: {} replicas, {} clients", settings.seed, scenario.replicas, scenario.clients);
    let cluster = Arc::new(Cluster::new(settings.seed, scenario, settings.bug, trace.clone()));
    let shared: Arc<Mutex<SharedHistory>> = Arc::default();
    let client = |id| Arc::new(Client::new(id, cluster.clone(), shared.clone()));
    let clients: Vec<_> = (0..=cluster.scenario.clients).map(client).collect();
    let nemesis = Arc::new(Nemesis::new(cluster.clone()));

    let story = live(&cluster, &clients, &shared, &nemesis);
    let violation = tokio::select! {
        biased;
        objection = check::watch_roles(cluster.clone()) => Some(objection),
        ended = story => ended.err(),
    };
    if let Some(violation) = &violation {
        event!(trace, "OBJECTION: {violation}");
    }
    for node in cluster.ids() {
        cluster.crash(node);
    }
    // What was done while things went wrong: the last client only probes, after healing.
    let busy = &clients[..clients.len() - 1];
    let histories = || busy.iter().map(|client| client.history.lock());
    let count = |wanted: fn(&Outcome) -> bool| {
        histories().map(|history| history.outcomes.values().filter(|outcome| wanted(outcome)).count() as u64).sum()
    };
    let troubles = *nemesis.counts.lock();
    Report {
        seed: settings.seed,
        violation,
        digest: trace.digest(),
        events: trace.events(),
        replicas: cluster.scenario.replicas,
        acknowledged: count(|outcome| matches!(outcome, Outcome::Acknowledged(_))),
        unknown: count(|outcome| matches!(outcome, Outcome::Unknown | Outcome::GivenUp)),
        reads: histories().map(|history| history.reads).sum(),
        shared: histories().map(|history| history.shared).sum(),
        troubles,
        simulated: time::now() - start,
    }
}

/// The life of a set: founded, tormented, healed, judged.
async fn live(
    cluster: &Arc<Cluster>,
    clients: &[Arc<Client>],
    shared: &Mutex<SharedHistory>,
    nemesis: &Arc<Nemesis>,
) -> Result<(), String> {
    cluster.bootstrap().await.map_err(|error| format!("the set could not be founded: {error:?}"))?;
    let until = time::now() + cluster.scenario.chaos;
    // The last client only probes, after healing.
    let Some((probe, busy)) = clients.split_last() else { return Err("a run needs clients".to_owned()) };
    let busy: Vec<_> = busy.iter().map(|client| mainstay_core::task::spawn(client.clone().run(until))).collect();
    nemesis.clone().run(until).await;
    for client in busy {
        client.await.map_err(|error| format!("a client failed: {error}"))?;
    }

    nemesis.heal_everything().await;
    if let Some(stuck) = nemesis.stuck.lock().clone() {
        return Err(stuck);
    }
    let members = check::heals(cluster, probe).await?;
    if let Some(stuck) = nemesis.stuck.lock().clone() {
        return Err(stuck);
    }
    check::judge(cluster, &members, clients)?;
    shared.lock().judge()
}
