//! Whatever callers do, a pool keeps its promises.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const MIN: usize = 1;
const MAX: usize = 3;
const WAITING_MAX: usize = 4;

#[derive(Debug, Clone, Copy)]
enum Step {
    Call,
    /// The call of a lease comes to its end.
    End(usize),
    /// It panics or is cut short.
    Break(usize),
    /// A caller that waits goes away.
    Leave(usize),
    /// A call ends, and a caller that waits goes away before it has seen what came free.
    EndAndLeave(usize, usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..8_usize;
    prop_oneof![
        4 => Just(Step::Call),
        2 => which.clone().prop_map(Step::End),
        1 => which.clone().prop_map(Step::Break),
        1 => which.clone().prop_map(Step::Leave),
        1 => (which.clone(), which).prop_map(|(end, leave)| Step::EndAndLeave(end, leave)),
        1 => (0..15_u64).prop_map(Step::Pass),
    ]
}

struct Run {
    pool: Arc<InstancePool<Counted>>,
    alive: Arc<AtomicUsize>,
    working: Vec<(WorkerLease<Counted>, usize)>,
    waiting: Vec<Acquiring>,
}

impl Run {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Call => {
                let mut call = acquiring(&self.pool);
                match poll(&mut call) {
                    Poll::Ready(Ok(lease)) => self.begin(lease),
                    Poll::Ready(Err(error)) => {
                        assert_eq!((error.kind(), self.waiting.len()), (ErrorKind::Overloaded, WAITING_MAX));
                    }
                    Poll::Pending => self.waiting.push(call),
                }
            }
            Step::End(which) => self.end(which),
            Step::Break(which) => drop(remove(&mut self.working, which)),
            Step::Leave(which) => drop(remove(&mut self.waiting, which)),
            Step::EndAndLeave(end, leave) => {
                self.end(end);
                drop(remove(&mut self.waiting, leave));
            }
            Step::Pass(seconds) => {
                time::sleep(Duration::from_secs(seconds)).await;
                if seconds > IDLE.as_secs() {
                    let alive = self.alive.load(Ordering::SeqCst);
                    assert!(alive <= self.working.len().max(MIN), "{alive} after they were idle for so long");
                }
            }
        }
        self.serve();
        self.check();
    }

    fn begin(&mut self, mut lease: WorkerLease<Counted>) {
        let number = lease.begin().unwrap().number;
        self.working.push((lease, number));
    }

    fn end(&mut self, which: usize) {
        if let Some((lease, _)) = remove(&mut self.working, which) {
            lease.end();
        }
    }

    /// Lets those who wait see what came free: the first of them, and nobody behind one that still waits.
    fn serve(&mut self) {
        let mut still_waiting = Vec::new();
        for mut call in std::mem::take(&mut self.waiting) {
            match poll(&mut call) {
                Poll::Ready(lease) => {
                    assert!(still_waiting.is_empty(), "one was overtaken");
                    self.begin(lease.unwrap());
                }
                Poll::Pending => still_waiting.push(call),
            }
        }
        self.waiting = still_waiting;
    }

    fn check(&self) {
        let PoolCounts { idle, working, waiting } = self.pool.counts();
        assert_eq!((working, waiting), (self.working.len(), self.waiting.len()));
        assert_eq!(self.alive.load(Ordering::SeqCst), idle + working);
        assert!(idle + working <= MAX);
        assert!(waiting == 0 || working == MAX, "a call waits although it need not");
        let numbers: BTreeSet<_> = self.working.iter().map(|(_, number)| number).collect();
        assert_eq!(numbers.len(), working, "two calls have one instance");
    }
}

fn remove<E>(list: &mut Vec<E>, which: usize) -> Option<E> {
    (!list.is_empty()).then(|| list.remove(which % list.len()))
}

proptest! {
    #[test]
    fn a_pool_keeps_its_promises(steps in prop::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (pool, alive) = pool(MIN, MAX, WAITING_MAX);
            let tender = task::spawn(pool.clone().run_reaper());
            let mut run = Run { pool, alive, working: Vec::new(), waiting: Vec::new() };
            for step in steps {
                run.step(step).await;
            }
            run.pool.close();
            tender.await.unwrap();
            run.working.clear();
            assert_eq!(run.alive.load(Ordering::SeqCst), 0);
        });
    }
}
