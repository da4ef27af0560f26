//! The whole of it, from start to end.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay::prelude::*;
use mainstay_governance::batch::durable::DurableWriter as _;
use mainstay_governance::resolve::{self, Resolver};

use crate::evidence::{Found, Verdict};
use crate::journal::{self, Journal};
use crate::moves::{Homes, keep_moving};
use crate::options::Options;
use crate::processor::{EventProcessorRef, EventProcessorWorker, USERS_RESOLVER, resolver_settings};
use crate::progress::{Progress, Written};
use crate::summary::{self, Run};
use crate::traffic::Traffic;
use crate::writer::{EventFiles, EventWriter, EventWriterRef, writers};

/// How long the answer to an event is kept, for callers that send it again.
const ANSWERS_KEPT: &str = "10m";

/// How long a folder may be in use by a process that is ending.
const IN_USE_MAX: Duration = Duration::from_secs(3);

/// How often is looked whether it still is.
const IN_USE_LOOK: Duration = Duration::from_millis(50);

/// Runs the demo until everything is acknowledged or somebody stops it.
///
/// # Errors
/// What keeps the node from starting, or an event from being taken.
pub async fn run(options: Options) -> Result<Verdict> {
    let folder = &options.data_dir;
    println!("an event pipeline in {}: stop it with Ctrl-C, or kill it and start it again", folder.display());
    std::fs::create_dir_all(folder).map_err(|error| {
        Error::invalid(format!("cannot create the folder {}: use another --data-dir", folder.display()))
            .with_source(error)
    })?;
    let (csv, acknowledged) = (folder.join("csv"), folder.join("acknowledged.txt"));
    let node = start_node(folder).await?;
    let writers = writers(&node)?;
    flush(&writers).await?;

    let earlier = Earlier::find(&csv, &acknowledged).await?;
    earlier.print();
    if earlier.verdict.missing.count + earlier.verdict.twice.count + earlier.verdict.altered.count > 0 {
        summary::print_verdict(&earlier.verdict, &earlier.found, 0);
        node.stop().await;
        return Ok(earlier.verdict);
    }
    let journal = Journal::open(&acknowledged)?;
    for id in &earlier.unheard {
        journal.record(*id).await?;
    }

    let users = Resolver::open(&node, USERS_RESOLVER, resolver_settings()).await?;
    let homes = Homes::ask(&users).await?;
    let traffic = Arc::new(Traffic::new(homes, earlier.left_out, earlier.next, options.events));
    let before = Written::ask(&writers).await?;
    let progress = Progress::new(traffic.total());
    let processor: EventProcessorRef = node.worker()?;
    let begun = Instant::now();
    let sending = traffic.run(options.callers, &processor, &journal);
    let moving = async {
        let moves = keep_moving(&users, &traffic, &progress).await;
        if moves.is_err() {
            traffic.stop();
        }
        moves
    };
    let (sent, moves) = tokio::select! {
        both = async { tokio::join!(sending, moving) } => both,
        // Neither of these ends before what is above.
        error = progress.keep_showing(&traffic, &writers, before) => (error, Ok(0)),
        () = stop_when_asked(&traffic, &progress) => (Ok(()), Ok(0)),
    };
    progress.end();
    let (moves, took) = (sent.and(moves)?, begun.elapsed());
    flush(&writers).await?;
    let written = Written::ask(&writers).await?.since(before);
    journal.close().await;
    drop(users);
    node.stop().await;

    let (acknowledged, latency) = (traffic.acknowledged(), &traffic.latency);
    summary::print_run(&Run { acknowledged, took, written, latency, moves, homes: traffic.homes.counts() });
    let (verdict, found) = read_back(folder, traffic.expected()).await?;
    summary::print_verdict(&verdict, &found, acknowledged);
    Ok(verdict)
}

/// Starts the node, as soon as a process that was killed just now has let go of the folder.
async fn start_node(folder: &Path) -> Result<Node> {
    let begun = Instant::now();
    loop {
        match try_start(folder).await {
            Err(error) if error.kind() == ErrorKind::Conflict && begun.elapsed() < IN_USE_MAX => {
                tokio::time::sleep(IN_USE_LOOK).await;
            }
            outcome => return outcome,
        }
    }
}

/// A node on the embedded default: everything below one folder, and no port.
async fn try_start(folder: &Path) -> Result<Node> {
    let node = Node::builder().isolated().data_dir(folder.join("node"));
    let node = EventWriter::serve(resolve::serve(node), EventFiles::below(&folder.join("csv")));
    let kept = format!("services.{}.idempotency_retention", EventFiles::NAME);
    node.worker::<EventProcessorWorker>().set(kept, ANSWERS_KEPT).start().await
}

/// Has everything written that was taken.
async fn flush(writers: &[EventWriterRef]) -> Result<()> {
    for writer in writers {
        writer.flush().await?;
    }
    Ok(())
}

/// What an earlier run has left behind, after what it had taken was written.
struct Earlier {
    found: Found,
    verdict: Verdict,
    /// Written, and the process was gone before the caller had its acknowledgement on record.
    unheard: Vec<u64>,
    /// Sent perhaps, and never taken.
    left_out: Vec<u64>,
    next: u64,
}

impl Earlier {
    async fn find(csv: &Path, acknowledged: &Path) -> Result<Self> {
        let (csv, acknowledged) = (csv.to_owned(), acknowledged.to_owned());
        let found = blocking(move || {
            let known = journal::read(&acknowledged)?;
            let found = Found::in_files(&EventFiles::below(&csv))?;
            let verdict = found.judge(&known, &[]);
            let known: std::collections::BTreeSet<u64> = known.into_iter().collect();
            let unheard = found.ids().filter(|id| !known.contains(id)).collect();
            let next = found.next().max(known.last().map_or(0, |last| last + 1));
            let left_out = (0..next).filter(|id| !found.has(*id)).collect();
            Ok(Self { found, verdict, unheard, left_out, next })
        });
        found.await
    }

    fn print(&self) {
        if self.next == 0 {
            println!("found nothing: this is the first run");
            return;
        }
        let Verdict { acknowledged, rows, missing, .. } = &self.verdict;
        println!("found {rows} rows of earlier runs in {} files", self.found.files);
        println!("  {} of {acknowledged} acknowledged events are there", acknowledged - missing.count);
        if !self.unheard.is_empty() {
            let unheard = self.unheard.len();
            println!("  {unheard} more are there whose acknowledgement was cut off: they are not sent again");
        }
        if !self.left_out.is_empty() {
            println!("  {} were never taken: they are sent again", self.left_out.len());
        }
        println!("going on with event {}", self.next);
    }
}

async fn read_back(folder: &Path, expected: Vec<(u64, u8)>) -> Result<(Verdict, Found)> {
    let folder = folder.to_owned();
    blocking(move || {
        let found = Found::in_files(&EventFiles::below(&folder.join("csv")))?;
        let acknowledged = journal::read(&folder.join("acknowledged.txt"))?;
        Ok((found.judge(&acknowledged, &expected), found))
    })
    .await
}

async fn blocking<O: Send + 'static>(work: impl FnOnce() -> Result<O> + Send + 'static) -> Result<O> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(Error::fatal("reading back panicked").with_source(error)))
}

/// Stops traffic at Ctrl-C, or when the system asks for it. Does not return: what is under way ends first.
async fn stop_when_asked(traffic: &Traffic, progress: &Progress) {
    asked().await;
    progress.note("stopping: what is under way ends first");
    traffic.stop();
    std::future::pending::<()>().await;
}

async fn asked() {
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a signal there is only the count.
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return interrupted.await };
        tokio::select! {
            () = interrupted => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    interrupted.await;
}
