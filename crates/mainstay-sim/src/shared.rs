//! What all clients do to the keys that they share.

use std::collections::BTreeMap;

use mainstay_core::{Epoch, PartitionId};

use crate::linearizability::{self, Contradiction, Moment, Read, Write};

/// Where the shared registers are.
pub(crate) const SHARED: PartitionId = PartitionId(7);

/// How many operations on shared registers one run records; afterwards clients leave them alone.
const OPERATIONS_MAX: usize = 50_000;

/// The history of the shared registers and counters, in the order in which it happened.
#[derive(Debug, Default)]
pub(crate) struct SharedHistory {
    now: Moment,
    operations: usize,
    registers: BTreeMap<u64, Register>,
    /// Every read that was served, with its epoch: it decides what becomes of commits without a known outcome.
    served: Vec<(Moment, Epoch)>,
    counters: BTreeMap<PartitionId, Counter>,
    violation: Option<String>,
}

#[derive(Debug, Default)]
struct Register {
    writes: BTreeMap<u64, Written>,
    reads: Vec<Read>,
}

#[derive(Debug)]
struct Written {
    called: Moment,
    ending: Ending,
}

/// What became of a write, so far. One that was refused is not there any more.
#[derive(Debug, Clone, Copy)]
enum Ending {
    UnderWay,
    Acknowledged(Moment),
    /// The answer was that the outcome is unknown. By then the role of that primary had ended, and the next to serve a read
    /// has applied all that can still happen.
    Unknown(Moment),
    /// The client has not waited for the answer. The commit may be under way at a primary that goes on to serve reads, in an
    /// epoch no later than this.
    GivenUp(Moment, Epoch),
}

/// What a counter can be: it only grows.
#[derive(Debug, Default)]
struct Counter {
    /// The sum of what was acknowledged.
    acknowledged: i64,
    /// The sum of what was called and not refused.
    called: i64,
    /// The most that was read.
    read: i64,
}

impl SharedHistory {
    /// True if no more operations on registers are taken in.
    pub(crate) fn is_full(&self) -> bool {
        self.operations >= OPERATIONS_MAX
    }

    /// The next moment; every other one, so that there is always one between two.
    fn tick(&mut self) -> Moment {
        self.now += 2;
        self.now
    }

    /// A value is about to be written to a register. No other write of the run has it.
    pub(crate) fn call(&mut self, register: u64, value: u64) {
        self.operations += 1;
        let called = self.tick();
        let written = Written { called, ending: Ending::UnderWay };
        self.registers.entry(register).or_default().writes.insert(value, written);
    }

    pub(crate) fn acknowledged(&mut self, register: u64, value: u64) {
        let now = self.tick();
        self.end(register, value, Ending::Acknowledged(now));
    }

    pub(crate) fn unknown(&mut self, register: u64, value: u64) {
        let now = self.tick();
        self.end(register, value, Ending::Unknown(now));
    }

    /// The client does not wait any longer; the commit was proposed in this epoch at the latest, if it was.
    pub(crate) fn given_up(&mut self, register: u64, value: u64, epoch: Epoch) {
        let now = self.tick();
        self.end(register, value, Ending::GivenUp(now, epoch));
    }

    pub(crate) fn refused(&mut self, register: u64, value: u64) {
        if let Some(register) = self.registers.get_mut(&register) {
            register.writes.remove(&value);
        }
    }

    fn end(&mut self, register: u64, value: u64, ending: Ending) {
        if let Some(written) = self.registers.get_mut(&register).and_then(|register| register.writes.get_mut(&value)) {
            written.ending = ending;
        }
    }

    /// A read of a register was served, in one go.
    pub(crate) fn read(&mut self, register: u64, value: u64, epoch: Epoch) {
        self.operations += 1;
        let (called, ended) = (self.tick(), self.tick());
        self.served.push((called, epoch));
        self.registers.entry(register).or_default().reads.push(Read { value, called, ended });
    }

    /// Something is about to be added to a counter.
    pub(crate) fn adds(&mut self, counter: PartitionId, delta: i64) {
        self.counters.entry(counter).or_default().called += delta;
    }

    /// It was added.
    pub(crate) fn added(&mut self, counter: PartitionId, delta: i64) {
        self.counters.entry(counter).or_default().acknowledged += delta;
    }

    /// It was refused.
    pub(crate) fn not_added(&mut self, counter: PartitionId, delta: i64) {
        self.counters.entry(counter).or_default().called -= delta;
    }

    /// A read of a counter was served.
    pub(crate) fn counted(&mut self, partition: PartitionId, found: i64, reader: &str) {
        let counter = self.counters.entry(partition).or_default();
        let Counter { acknowledged, called, read } = *counter;
        counter.read = read.max(found);
        if found < acknowledged.max(read) || found > called {
            let what = format!(
                "{reader} read {found} from the counter of partition {partition}: {acknowledged} were acknowledged, {read} were \
                 read before, and {called} can be there at most"
            );
            self.violation.get_or_insert(what);
        }
    }

    /// Looks for an order of all operations that explains what the clients were told.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn judge(&self) -> Result<(), String> {
        if let Some(violation) = &self.violation {
            return Err(violation.clone());
        }
        for (name, register) in &self.registers {
            let Err(contradiction) = self.order(register, |ending| self.decided(ending)) else { continue };
            // Would it be in order if what is unknown could happen at any time?
            return Err(match self.order(register, |_| Moment::MAX) {
                Err(contradiction) => format!("register {name} is not linearizable: {contradiction}"),
                Ok(()) => format!(
                    "register {name}: a commit of unknown outcome happened after a read that did not show it: {contradiction}"
                ),
            });
        }
        Ok(())
    }

    /// Looks for an order in which what has no known outcome has happened by a moment, or never happens.
    fn order(&self, register: &Register, decided: impl Fn(Ending) -> Moment) -> Result<(), Contradiction> {
        let writes = register.writes.iter().map(|(value, Written { called, ending })| {
            let (ended, is_certain) = match ending {
                Ending::Acknowledged(at) => (*at, true),
                unknown => (decided(*unknown), false),
            };
            Write { value: *value, called: *called, ended, is_certain }
        });
        linearizability::check(&writes.collect::<Vec<_>>(), &register.reads, &[])
    }

    /// The last moment at which a commit without a known outcome can happen: before the first read that was served when it
    /// could not be under way any more.
    fn decided(&self, ending: Ending) -> Moment {
        let by = |after: Moment, is_later: &dyn Fn(Epoch) -> bool| {
            let after = self.served.partition_point(|(at, _)| *at <= after);
            self.served[after..].iter().find(|(_, epoch)| is_later(*epoch)).map_or(Moment::MAX, |(at, _)| at - 1)
        };
        match ending {
            Ending::Unknown(at) => by(at, &|_| true),
            Ending::GivenUp(at, last) => by(at, &|epoch| epoch > last),
            Ending::UnderWay | Ending::Acknowledged(_) => Moment::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(story: impl FnOnce(&mut SharedHistory)) -> Result<(), String> {
        let mut history = SharedHistory::default();
        story(&mut history);
        history.judge()
    }

    #[test]
    fn an_unknown_commit_may_show_in_the_next_read_and_in_none_after_one_that_did_not_show_it() {
        let shown = judged(|history| {
            history.call(0, 1);
            history.unknown(0, 1);
            history.read(0, 1, Epoch(2));
            history.read(0, 1, Epoch(2));
        });
        assert_eq!(shown, Ok(()));
        let late = judged(|history| {
            history.call(0, 1);
            history.unknown(0, 1);
            history.read(0, 0, Epoch(2));
            history.read(0, 1, Epoch(2));
        });
        assert!(late.unwrap_err().contains("happened after a read that did not show it"));
    }

    #[test]
    fn a_read_of_another_register_decides_as_well() {
        let late = judged(|history| {
            history.call(0, 1);
            history.unknown(0, 1);
            history.read(1, 0, Epoch(2));
            history.call(0, 2);
            history.acknowledged(0, 2);
            history.read(0, 1, Epoch(2));
        });
        assert!(late.unwrap_err().contains("happened after a read that did not show it"));
    }

    #[test]
    fn a_commit_that_was_not_waited_for_is_decided_by_a_read_of_a_later_epoch() {
        let same_epoch = judged(|history| {
            history.call(0, 1);
            history.given_up(0, 1, Epoch(2));
            history.read(0, 0, Epoch(2));
            history.read(0, 1, Epoch(2));
        });
        assert_eq!(same_epoch, Ok(()));
        let later = judged(|history| {
            history.call(0, 1);
            history.given_up(0, 1, Epoch(2));
            history.read(0, 0, Epoch(3));
            history.read(0, 1, Epoch(3));
        });
        assert!(later.unwrap_err().contains("happened after a read that did not show it"));
    }

    #[test]
    fn what_was_refused_or_is_older_than_an_acknowledged_commit_is_not_read() {
        let refused = judged(|history| {
            history.call(0, 1);
            history.refused(0, 1);
            history.read(0, 1, Epoch(1));
        });
        assert!(refused.unwrap_err().contains("not linearizable: 1 was read and never written"));
        let stale = judged(|history| {
            history.call(0, 1);
            history.acknowledged(0, 1);
            history.read(0, 0, Epoch(1));
        });
        assert!(stale.unwrap_err().contains("not linearizable"));
    }

    #[test]
    fn a_counter_has_all_that_was_acknowledged_and_nothing_that_was_refused() {
        let counts = |found: i64| {
            judged(|history| {
                for delta in [1, 2, 4] {
                    history.adds(SHARED, delta);
                }
                history.added(SHARED, 1);
                history.not_added(SHARED, 4);
                history.counted(SHARED, found, "somebody");
            })
        };
        assert!(counts(0).is_err() && counts(4).is_err());
        assert_eq!([counts(1), counts(3)], [Ok(()), Ok(())]);
        let back = judged(|history| {
            history.adds(SHARED, 5);
            history.counted(SHARED, 5, "somebody");
            history.counted(SHARED, 0, "somebody");
        });
        assert!(back.unwrap_err().contains("5 were read before"));
    }
}
