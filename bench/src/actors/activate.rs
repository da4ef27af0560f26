//! What a million actors cost that nobody asks for anything: the time to have them, and their memory.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use mainstay_core::task;

use super::counter::{Counter, Library};
use super::ours::{self, PlainTally, StateTally};
use super::peers;
use crate::contest::Contest;
use crate::goal::Target;
use crate::load::runtime;
use crate::measurement::{Measurement, Unit};
use crate::outcome::Outcome;
use crate::process::{Memory, child};
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::stopwatch::Stopwatch;

/// How many actors.
const COUNT: u64 = 1_000_000;

/// Who is held against the slowest peer: an actor with one `State<i64>` at level none.
const OURS: &str = "mainstay, State<i64>";

/// What each actor cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activation {
    /// Until all were started, as far as the library waits for that.
    start_micros: f64,
    /// Until each had answered its first ask too.
    answer_micros: f64,
    /// Of the process while all are idle, the handles included without which an actor would be gone.
    bytes: f64,
}

impl Activation {
    /// Of actors that were all started after so many seconds and had all answered after so many, and are idle now.
    pub(super) fn of(count: u64, started: f64, answered: f64, before: Memory) -> Outcome<Self> {
        let bytes = (Memory::now()?.resident - before.resident) * 1024.0 * 1024.0;
        let each = |total: f64| total / count as f64;
        Ok(Self { start_micros: each(started * 1e6), answer_micros: each(answered * 1e6), bytes: each(bytes) })
    }
}

/// Starts many actors of one contender, in a process of its own.
type Activate = fn(&Path, u64) -> Outcome<Activation>;

const FLOOR: (&str, Activate) = ("tokio mpsc and oneshot (floor)", on_runtime::<peers::tokio::Tokio>);

const PEERS: [(&str, Activate); 4] = [
    ("actix", |_, count| peers::actix::activation(count)),
    ("ractor", on_runtime::<peers::ractor::Ractor>),
    ("kameo", on_runtime::<peers::kameo::Kameo>),
    ("xtra", on_runtime::<peers::xtra::Xtra>),
];

/// With and without state.
const MAINSTAY: [(&str, Activate); 2] =
    [(OURS, ours::activation::<StateTally>), ("mainstay, plain number", ours::activation::<PlainTally>)];

fn contenders() -> impl Iterator<Item = (&'static str, Activate)> {
    MAINSTAY.into_iter().chain(PEERS).chain([FLOOR])
}

pub(super) fn run(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let count = settings.count(COUNT);
    let mut contest = Contest::new();
    let mut sides = Vec::new();
    for (name, _) in contenders() {
        let side = Rc::new(RefCell::new(Side::of(name)));
        sides.push(side.clone());
        contest.enter(name, Unit::Micros, move |folder| {
            let figures = child(&["actors", "activate", name, &folder.display().to_string(), &count.to_string()])?;
            let [start, answer, bytes] = figures[..] else { return Err("not three figures".into()) };
            let mut side = side.borrow_mut();
            side.answer.push(answer);
            side.bytes.push(bytes);
            Ok(start)
        });
    }
    let results = contest.run(settings.rounds(), scratch)?;
    let (answers, bytes): (Vec<_>, Vec<_>) =
        sides.iter().map(|side| side.borrow().clone()).map(|side| (side.answer, side.bytes)).unzip();
    let ours = |all: &[Measurement]| all.iter().find(|found| found.name == OURS).cloned();
    report.goal(ours(&bytes).map(|found| found.named("activate-1m-memory")), Target::Under(1024.0));
    let slowest = results.largest(PEERS.map(|(name, _)| name));
    let versus = slowest.and_then(|slowest| Some(results.get(OURS)?.over(&slowest, "activate-1m-vs-slowest-spawn")));
    report.goal(versus, Target::AtMost(1.0));
    report.group(&format!("start of each of {count} actors"), results.into_measurements());
    report.group(&format!("start and first answer of each of {count} actors"), answers);
    report.group(&format!("memory for each of {count} idle actors"), bytes);
    Ok(())
}

/// What is measured beside the time to start.
#[derive(Debug, Clone)]
struct Side {
    answer: Measurement,
    bytes: Measurement,
}

impl Side {
    fn of(name: &str) -> Self {
        Self { answer: Measurement::new(name, Unit::Micros), bytes: Measurement::new(name, Unit::Bytes) }
    }
}

/// What the copy of this program does.
pub(super) fn measure(name: &str, folder: &Path, count: u64) -> Outcome<Vec<f64>> {
    let (_, activate) = contenders().find(|(other, _)| *other == name).ok_or_else(|| format!("nobody is {name}"))?;
    let found = activate(folder, count)?;
    Ok(vec![found.start_micros, found.answer_micros, found.bytes])
}

fn on_runtime<L: Library>(folder: &Path, count: u64) -> Outcome<Activation> {
    let runtime = runtime()?;
    let found = runtime.block_on(async {
        let library = L::open(folder).await?;
        // On a worker, where a program's own calls run.
        let (library, found) = task::spawn(async move {
            let found = activate(&library, count).await;
            (library, found)
        })
        .await?;
        library.close().await;
        found
    });
    // Nobody waits until a million actors are gone.
    runtime.shutdown_background();
    found
}

/// Starts actors one after the other, then asks each of them once.
pub(super) async fn activate<L: Library>(library: &L, count: u64) -> Outcome<Activation> {
    let mut counters = Vec::with_capacity(usize::try_from(count)?);
    let before = Memory::now()?;
    let watch = Stopwatch::start();
    for number in 0..count {
        counters.push(library.start(number).await?);
        // Where actors are started aside, they are as soon as others are, not when all of them wait for it.
        tokio::task::coop::consume_budget().await;
    }
    let started = watch.seconds();
    for counter in &counters {
        let answer = counter.add(1).await?;
        if answer != 1 {
            return Err(format!("a new actor that was told to add 1 has {answer}").into());
        }
    }
    Activation::of(count, started, watch.seconds(), before)
}
