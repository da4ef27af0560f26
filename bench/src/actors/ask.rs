//! Asks to actors in memory: what a call costs when nothing but the library is in its way.

use std::path::Path;

use super::counter::{Asks, Library};
use super::ours::{Ours, PlainTally, StateTally};
use super::peers;
use crate::contest::Contest;
use crate::goal::Target;
use crate::load::{runtime, runtime_of_one_thread};
use crate::measurement::Unit;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;

/// How many asks are timed, by all callers together.
const COUNT: u64 = 3_000_000;

/// Measures asks of one contender.
type Ask = fn(&Path, Asks) -> Outcome<f64>;

/// Who is held against the fastest peer: an actor with a plain number, as the peers have it.
const OURS: [(&str, Ask); 2] =
    [("mainstay", on_all_cores::<Ours<PlainTally>>), ("mainstay, one thread", on_one_thread::<Ours<PlainTally>>)];

/// What it costs on top when the number is state.
const OURS_WITH_STATE: [(&str, Ask); 2] = [
    ("mainstay, State<i64>", on_all_cores::<Ours<StateTally>>),
    ("mainstay, State<i64>, one thread", on_one_thread::<Ours<StateTally>>),
];

const FLOOR: [(&str, Ask); 2] = [
    ("tokio mpsc and oneshot (floor)", on_all_cores::<peers::tokio::Tokio>),
    ("tokio mpsc and oneshot (floor), one thread", on_one_thread::<peers::tokio::Tokio>),
];

/// Each on a thread for each core and all in one: which is faster depends on who asks whom, and the faster one counts.
const PEERS: [(&str, Ask); 8] = [
    ("actix", peers::actix::on_all_cores),
    ("actix, one thread", peers::actix::on_one_thread),
    ("ractor", on_all_cores::<peers::ractor::Ractor>),
    ("ractor, one thread", on_one_thread::<peers::ractor::Ractor>),
    ("kameo", on_all_cores::<peers::kameo::Kameo>),
    ("kameo, one thread", on_one_thread::<peers::kameo::Kameo>),
    ("xtra", on_all_cores::<peers::xtra::Xtra>),
    ("xtra, one thread", on_one_thread::<peers::xtra::Xtra>),
];

fn on_all_cores<L: Library>(folder: &Path, asks: Asks) -> Outcome<f64> {
    asks.of::<L>(&runtime()?, folder)
}

fn on_one_thread<L: Library>(folder: &Path, asks: Asks) -> Outcome<f64> {
    asks.of::<L>(&runtime_of_one_thread()?, folder)
}

/// One way to ask, and what is to be reached against the fastest peer.
struct Shape {
    bench: &'static str,
    title: &'static str,
    callers: usize,
    actors: usize,
    target: Target,
}

const SHAPES: [Shape; 3] = [
    Shape {
        bench: "ask-1",
        title: "asks of one caller to an idle actor",
        callers: 1,
        actors: 1,
        // At most half of the time.
        target: Target::AtLeast(2.0),
    },
    Shape {
        bench: "ask-64-1",
        title: "asks of 64 callers to one actor",
        callers: 64,
        actors: 1,
        target: Target::AtLeast(1.0),
    },
    Shape {
        bench: "ask-64-1000",
        title: "asks of 64 callers to 1,000 actors",
        callers: 64,
        actors: 1000,
        target: Target::AtLeast(1.0),
    },
];

pub(super) fn run(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    for shape in SHAPES.iter().filter(|shape| settings.wants(shape.bench)) {
        shape.run(settings, scratch, report)?;
    }
    Ok(())
}

impl Shape {
    fn run(&self, settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
        let asks = Asks { callers: self.callers, actors: self.actors, count: settings.count(COUNT) };
        let mut contest = Contest::new();
        for (name, ask) in OURS.into_iter().chain(OURS_WITH_STATE).chain(PEERS).chain(FLOOR) {
            contest.enter(name, Unit::PerSecond, move |folder| ask(folder, asks));
        }
        let results = contest.run(settings.rounds(), scratch)?;
        let fastest = |some: &[(&str, Ask)]| results.largest(some.iter().map(|(name, _)| name));
        let goal = format!("{}-vs-fastest-peer", self.bench);
        let versus = fastest(&OURS).zip(fastest(&PEERS)).map(|(ours, peer)| ours.over(&peer, &goal));
        report.goal(versus, self.target);
        report.group(self.title, results.into_measurements());
        Ok(())
    }
}
