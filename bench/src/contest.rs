use std::path::Path;

use crate::measurement::{Measurement, Unit};
use crate::outcome::{Outcome, explain};
use crate::process;
use crate::scratch::Scratch;

/// Contenders that are measured in turns: each runs once per round, so that a machine that is busy for a while is so
/// for all of them, and every round starts elsewhere, so that nobody always comes after the same one.
#[derive(Default)]
pub(crate) struct Contest {
    contenders: Vec<Contender>,
}

struct Contender {
    name: String,
    unit: Unit,
    run: Run,
}

/// Measures once, in an empty folder.
type Run = Box<dyn FnMut(&Path) -> Outcome<f64>>;

/// What came out, by name.
#[derive(Debug)]
pub(crate) struct Results {
    measurements: Vec<Measurement>,
}

impl Contest {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds somebody to measure.
    pub(crate) fn enter(&mut self, name: &str, unit: Unit, run: impl FnMut(&Path) -> Outcome<f64> + 'static) {
        self.contenders.push(Contender { name: name.to_owned(), unit, run: Box::new(run) });
    }

    /// Has everybody measured by a fresh copy of this program, which is told the words, the name and the folder, and answers by
    /// [`measure`](Self::measure): nobody is measured among what somebody else has left in memory.
    pub(crate) fn in_copies(self, words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let in_copy = |Contender { name, unit, .. }: Contender| {
            let (words, told) = (words.clone(), name.clone());
            let run: Run = Box::new(move |folder| {
                let folder = folder.display().to_string();
                let words: Vec<&str> = words.iter().chain([&told, &folder]).map(String::as_str).collect();
                process::figure(&words)
            });
            Contender { name, unit, run }
        };
        Self { contenders: self.contenders.into_iter().map(in_copy).collect() }
    }

    /// Measures one of them once, in an empty folder.
    ///
    /// # Errors
    /// Its own, and if there is nobody of that name.
    pub(crate) fn measure(self, name: &str, folder: &Path) -> Outcome<f64> {
        match self.contenders.into_iter().find(|contender| contender.name == name) {
            Some(mut contender) => (contender.run)(folder),
            None => Err(format!("there is no contender {name:?}").into()),
        }
    }

    /// Measures everybody once per round.
    ///
    /// # Errors
    /// The first of a contender, with its name.
    pub(crate) fn run(mut self, rounds: usize, scratch: &Scratch) -> Outcome<Results> {
        let enter = |contender: &Contender| Measurement::new(&contender.name, contender.unit);
        let mut measurements: Vec<Measurement> = self.contenders.iter().map(enter).collect();
        let count = self.contenders.len();
        for round in 0..rounds {
            for turn in 0..count {
                let at = (turn + round * count / rounds) % count;
                let contender = &mut self.contenders[at];
                let sample = scratch
                    .within(&contender.name, |folder| (contender.run)(folder))
                    .map_err(|error| format!("{}: {}", contender.name, explain(&*error)))?;
                let shown = contender.unit.show(sample);
                eprintln!("  round {} of {rounds}  {:<32}{shown:>14}", round + 1, contender.name);
                measurements[at].push(sample);
            }
        }
        Ok(Results { measurements })
    }
}

impl Results {
    /// What was measured under a name, if it took part.
    pub(crate) fn get(&self, name: &str) -> Option<&Measurement> {
        self.measurements.iter().find(|measurement| measurement.name == name)
    }

    /// How many times `other` the one is, if both took part.
    pub(crate) fn ratio(&self, one: &str, other: &str, name: &str) -> Option<Measurement> {
        Some(self.get(one)?.over(self.get(other)?, name))
    }

    /// The largest of several, round by round, if all of them took part.
    pub(crate) fn largest<S: AsRef<str>>(&self, names: impl IntoIterator<Item = S>) -> Option<Measurement> {
        let mut all = names.into_iter().map(|name| self.get(name.as_ref()));
        let first = all.next()??.clone();
        all.try_fold(first, |largest, one| Some(largest.larger(one?)))
    }

    pub(crate) fn into_measurements(self) -> Vec<Measurement> {
        self.measurements
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn scratch() -> (tempfile::TempDir, Scratch) {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::below(dir.path()).unwrap();
        (dir, scratch)
    }

    #[test]
    fn contenders_take_turns_and_start_elsewhere_each_round() {
        let (_dir, scratch) = scratch();
        let seen = Rc::new(RefCell::new(String::new()));
        let mut contest = Contest::new();
        for (place, name) in ["a", "b", "c"].into_iter().enumerate() {
            let seen = seen.clone();
            contest.enter(name, Unit::PerSecond, move |_| {
                seen.borrow_mut().push_str(name);
                Ok(place as f64 + 1.0)
            });
        }
        let results = contest.run(3, &scratch).unwrap();
        assert_eq!(*seen.borrow(), "abcbcacab");
        assert_eq!(results.get("b").unwrap().median(), 2.0);
        assert_eq!(results.ratio("c", "a", "c/a").unwrap().max(), 3.0);
        assert!(results.ratio("c", "z", "c/z").is_none());
        assert_eq!(results.largest(["a", "c", "b"]).unwrap().max(), 3.0);
        assert!(results.largest(["a", "z"]).is_none());
    }

    #[test]
    fn one_is_measured_by_its_name() {
        let entered = || {
            let mut contest = Contest::new();
            for (name, figure) in [("a", 1.0), ("b", 2.0)] {
                contest.enter(name, Unit::PerSecond, move |_| Ok(figure));
            }
            contest
        };
        assert_eq!(entered().measure("b", Path::new(".")).unwrap(), 2.0);
        assert_eq!(entered().measure("c", Path::new(".")).unwrap_err().to_string(), "there is no contender \"c\"");
    }

    #[test]
    fn everybody_gets_an_empty_folder() {
        let (_dir, scratch) = scratch();
        let mut contest = Contest::new();
        for name in ["a", "a/b c"] {
            contest.enter(name, Unit::PerSecond, |folder| {
                assert_eq!(std::fs::read_dir(folder)?.count(), 0);
                std::fs::write(folder.join("left behind"), "x")?;
                Ok(1.0)
            });
        }
        contest.run(3, &scratch).unwrap();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_breaks_says_who() {
        let (_dir, scratch) = scratch();
        let mut contest = Contest::new();
        contest.enter("redb", Unit::PerSecond, |_| Err("no room".into()));
        assert_eq!(contest.run(3, &scratch).unwrap_err().to_string(), "redb: no room");
    }
}
