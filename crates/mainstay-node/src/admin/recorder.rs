use std::sync::OnceLock;

use mainstay_runtime::metric;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;

/// What the names of our metrics start with.
const PREFIX: &str = "mainstay_";

/// The recorder of this process, once a node has installed it. There is one, because there is one place for it in a process.
static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// One at a time, or two nodes that start together might both try.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Installs the recorder for Prometheus, if the process has none. If the application has installed one of its own, ours
/// gets nothing to record, and `/metrics` will say so.
pub(crate) fn install() {
    let _installing = INSTALLING.lock();
    if RECORDER.get().is_some() {
        return;
    }
    let ours = Matcher::Prefix(PREFIX.to_owned());
    let builder = match PrometheusBuilder::new().set_buckets_for_metric(ours, &metric::SECONDS_BOUNDS) {
        Ok(builder) => builder,
        Err(error) => {
            // Only for a list of bounds that is empty, and ours is not.
            tracing::warn!(%error, "the bounds of histograms were refused: they are shown as summaries");
            PrometheusBuilder::new()
        }
    };
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::info!("the application has a metrics recorder of its own: /metrics on the admin address stays empty");
        return;
    }
    metric::describe();
    // Nobody else sets it, because `_installing` is held.
    drop(RECORDER.set(handle));
}

/// The text of all metrics; `None` if the recorder of the process is not ours.
pub(super) fn render() -> Option<String> {
    RECORDER.get().map(PrometheusHandle::render)
}

/// Sorts samples of histograms into their classes. Until then each takes memory, so it is done all the time, whether
/// somebody asks for the metrics or not.
pub(super) fn tidy() {
    if let Some(handle) = RECORDER.get() {
        handle.run_upkeep();
    }
}
