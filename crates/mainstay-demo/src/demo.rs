//! The whole of it, from start to end.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay::governance::batch::durable::DurableWriter as _;
use mainstay::governance::resolve::{self, Resolver};
use mainstay::prelude::*;

use crate::earlier::Earlier;
use crate::evidence::{Found, Verdict};
use crate::journal::Journal;
use crate::moves::{Homes, keep_moving};
use crate::numbers::{EVENTS_MAX, Places};
use crate::options::Options;
use crate::output::Output;
use crate::processor::{EventProcessorRef, EventProcessorWorker, USERS_RESOLVER, resolver_settings};
use crate::progress::{Progress, Written};
use crate::records::RecordFiles;
use crate::stop::Signals;
use crate::summary::{self, Run};
use crate::traffic::Traffic;
use crate::writer::{EventFiles, EventWriter, EventWriterRef, writers};

/// How long the answer to an event is kept, for callers that send it again.
const ANSWERS_KEPT: &str = "10m";

/// How long a folder may be in use by a process that is ending.
const IN_USE_MAX: Duration = Duration::from_secs(3);

/// How often is looked whether it still is.
const IN_USE_LOOK: Duration = Duration::from_millis(50);

/// How often is looked what keeps writers from writing.
const FLUSH_LOOK: Duration = Duration::from_millis(500);

/// How it exits when it is told twice to stop, as a shell has it for Ctrl-C.
const STOPPED_TWICE: i32 = 130;

/// Runs the demo until everything is acknowledged or somebody stops it.
///
/// # Errors
/// What keeps the node from starting, an event from being taken, or a row from being written until it is stopped.
pub async fn run(options: Options) -> Result<Verdict> {
    let (folder, output) = (&options.data_dir, Arc::new(Output::default()));
    drop(tokio::spawn(stop_when_asked(Signals::listen(), output.clone())));
    let text = "stop it with Ctrl-C, or kill it and start it again";
    output.say(format!("an event pipeline in {}: {text}", folder.display()));
    std::fs::create_dir_all(folder).map_err(|error| {
        Error::invalid(format!("cannot create the folder {}: use another --data-dir", folder.display()))
            .with_source(error)
    })?;
    let (csv, records) = (folder.join("csv"), RecordFiles::in_folder(folder));
    let node = start_node(folder).await?;
    let writers = writers(&node)?;
    flush(&writers, &output).await?;

    let earlier = {
        let (csv, records) = (csv.clone(), records.clone());
        blocking(move || Earlier::find(&csv, &records)).await?
    };
    earlier.print(&output);
    if !earlier.is_sound() {
        summary::print_verdict(&earlier.verdict, &earlier.found, 0, &output);
        node.stop().await;
        return Ok(earlier.verdict);
    }
    if options.events > EVENTS_MAX.saturating_sub(earlier.next) {
        return Err(Error::invalid(format!(
            "{} events beside the {} that are there would be more than {EVENTS_MAX} (EVENTS_MAX): send fewer, or delete {} to \
             begin anew",
            options.events,
            earlier.next,
            folder.display()
        )));
    }
    // Not among those that were acknowledged: nobody has promised them to anybody.
    let unacknowledged = Journal::open(&records.unacknowledged)?;
    for id in earlier.unrecorded() {
        unacknowledged.record(id).await?;
    }
    unacknowledged.close().await;
    let journal = Journal::open(&records.acknowledged)?;

    let users = Resolver::open(&node, USERS_RESOLVER, resolver_settings()).await?;
    let homes = Homes::ask(&users).await?;
    let Earlier { left_out, next, .. } = earlier;
    let traffic = Arc::new(Traffic::new(homes, left_out, next, options.events, output.stop.clone()));
    let before = Written::ask(&writers).await?;
    let progress = Progress::new(traffic.total(), &output);
    let processor: EventProcessorRef = node.worker()?;
    let begun = Instant::now();
    let sending = traffic.run(options.callers, &processor, &journal);
    let moving = async {
        let moves = keep_moving(&users, &traffic, &output).await;
        if moves.is_err() {
            output.stop.ask();
        }
        moves
    };
    let (sent, moves) = tokio::select! {
        both = async { tokio::join!(sending, moving) } => both,
        // Does not end before what is above.
        error = progress.keep_showing(&traffic, &writers, &before) => (error, Ok(0)),
    };
    progress.end();
    let (moves, took) = (sent.and(moves)?, begun.elapsed());
    flush(&writers, &output).await?;
    let written = Written::ask(&writers).await?.since(&before);
    journal.close().await;
    drop(users);
    node.stop().await;

    let latency = &traffic.latency;
    let run =
        Run { acknowledged: traffic.acknowledged(), took, written, latency, moves, homes: traffic.homes.counts() };
    summary::print_run(&run, &output);
    let (verdict, found) = read_back(csv, records, traffic.expected()).await?;
    summary::print_verdict(&verdict, &found, run.acknowledged, &output);
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

/// Has everything written that was taken, however long that takes: it says what is in the way, and ends when somebody who has
/// seen that asks for it, or when what is in the way does not pass by itself.
async fn flush(writers: &[(String, EventWriterRef)], output: &Output) -> Result<()> {
    let mut told = None;
    for (_, writer) in writers {
        let mut flushing = pin!(writer.flush());
        loop {
            let is_stopped = output.stop.is_asked();
            let ended = tokio::select! {
                ended = &mut flushing => Some(ended),
                () = tokio::time::sleep(FLUSH_LOOK) => None,
                () = output.stop.asked(), if !is_stopped => None,
            };
            match ended {
                Some(Ok(())) => break,
                // It has taken longer than a call may.
                Some(Err(error)) if error.is_retryable() || error.kind() == ErrorKind::OutcomeUnknown => {
                    flushing.set(writer.flush());
                }
                Some(Err(error)) => return Err(error),
                None => {}
            }
            let written = told_trouble(writers, &mut told, output).await?;
            written.refuse_stuck()?;
            if let Some(trouble) = written.trouble.as_ref().filter(|_| is_stopped) {
                return Err(written.unwritten(ErrorKind::Retry, trouble));
            }
        }
    }
    Ok(())
}

async fn told_trouble(
    writers: &[(String, EventWriterRef)],
    told: &mut Option<String>,
    output: &Output,
) -> Result<Written> {
    let written = Written::ask(writers).await?;
    written.tell_trouble(told, output);
    Ok(written)
}

async fn read_back(csv: PathBuf, records: RecordFiles, expected: Places) -> Result<(Verdict, Found)> {
    blocking(move || {
        let found = Found::in_files(&EventFiles::below(&csv))?;
        Ok((found.judge(&records.read()?, &expected), found))
    })
    .await
}

async fn blocking<O: Send + 'static>(work: impl FnOnce() -> Result<O> + Send + 'static) -> Result<O> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(Error::fatal("reading back panicked").with_source(error)))
}

/// Asks for an end at Ctrl-C, or when the system does; and ends at once when it is asked again.
async fn stop_when_asked(mut signals: Signals, output: Arc<Output>) {
    signals.next().await;
    output.note("stopping: what is under way ends first; once more to stop at once");
    output.stop.ask();
    signals.next().await;
    std::process::exit(STOPPED_TWICE);
}
