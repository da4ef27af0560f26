use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mainstay_core::{task, time};

use crate::outcome::Outcome;
use crate::stopwatch::{Stopwatch, pause};

/// Many writers at once, each of which writes again as soon as its last write is done, and at least once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) writers: usize,
    /// How long it runs before anything counts: files are created, caches and primaries found.
    pub(crate) warm_up: Duration,
    /// How long it is measured.
    pub(crate) span: Duration,
}

/// One writer of a load that runs on tasks.
pub(crate) trait Writer: Send + 'static {
    /// Writes once, and returns when that is done.
    fn write(&mut self, turn: u64) -> impl Future<Output = Outcome<()>> + Send;
}

#[derive(Debug, Default)]
struct Progress {
    done: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Ends the load also when a writer fails or panics, so that nobody waits for the rest.
struct StopOnDrop<'a>(&'a Progress);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Load {
    /// Writes per second, each writer a thread. The write gets the number of the writer and of the turn.
    ///
    /// # Errors
    /// The first of a write.
    pub(crate) fn on_threads(&self, write: impl Fn(usize, u64) -> Outcome<()> + Sync) -> Outcome<f64> {
        let progress = Progress::default();
        std::thread::scope(|scope| {
            let run = |writer: usize| {
                let progress = &progress;
                let write = &write;
                move || -> Outcome<()> {
                    let _stop = StopOnDrop(progress);
                    let mut turn = 0;
                    loop {
                        write(writer, turn)?;
                        progress.step();
                        turn += 1;
                        if progress.is_stopped() {
                            return Ok(());
                        }
                    }
                }
            };
            let threads: Vec<_> = (0..self.writers).map(|writer| scope.spawn(run(writer))).collect();
            pause(self.warm_up);
            let (watch, before) = (Stopwatch::start(), progress.done());
            pause(self.span);
            let rate = (progress.done() - before) as f64 / watch.seconds();
            progress.stop();
            for thread in threads {
                thread.join().map_err(|_| "a writer panicked")??;
            }
            Ok(rate)
        })
    }

    /// Writes per second, each writer a task of the current runtime.
    ///
    /// # Errors
    /// The first of a write.
    pub(crate) async fn on_tasks<W: Writer>(&self, writers: impl IntoIterator<Item = W>) -> Outcome<f64> {
        let progress = Arc::new(Progress::default());
        let start = |mut writer: W| {
            let progress = progress.clone();
            task::spawn(async move {
                let _stop = StopOnDrop(&progress);
                let mut turn = 0;
                loop {
                    writer.write(turn).await?;
                    progress.step();
                    turn += 1;
                    if progress.is_stopped() {
                        return Outcome::Ok(());
                    }
                }
            })
        };
        let tasks: Vec<_> = writers.into_iter().take(self.writers).map(start).collect();
        time::sleep(self.warm_up).await;
        let (watch, before) = (Stopwatch::start(), progress.done());
        time::sleep(self.span).await;
        let rate = (progress.done() - before) as f64 / watch.seconds();
        progress.stop();
        for task in tasks {
            task.await??;
        }
        Ok(rate)
    }
}

/// A runtime as a program would have it: a worker for each core.
///
/// # Errors
/// If the system gives no threads.
pub(crate) fn runtime() -> Outcome<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_time().build()?)
}

/// A runtime that has only the thread that blocks on it: no task is ever woken by another thread.
///
/// # Errors
/// If the system gives no timer.
pub(crate) fn runtime_of_one_thread() -> Outcome<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_time().build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load { writers: 4, warm_up: Duration::ZERO, span: Duration::from_millis(5) };

    #[test]
    fn all_threads_write_in_turns() {
        let turns: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let rate = LOAD.on_threads(|writer, turn| {
            assert_eq!(turns[writer].fetch_add(1, Ordering::Relaxed), turn);
            Ok(())
        });
        assert!(rate.unwrap() >= 0.0);
    }

    #[test]
    fn a_failed_write_ends_a_load_on_threads() {
        let result = LOAD.on_threads(|writer, _| if writer == 2 { Err("disk full".into()) } else { Ok(()) });
        assert_eq!(result.unwrap_err().to_string(), "disk full");
    }

    struct Failing(usize);

    impl Writer for Failing {
        async fn write(&mut self, _: u64) -> Outcome<()> {
            tokio::task::yield_now().await;
            if self.0 == 2 { Err("disk full".into()) } else { Ok(()) }
        }
    }

    #[test]
    fn a_failed_write_ends_a_load_on_tasks() {
        let result = runtime().unwrap().block_on(LOAD.on_tasks((0..).map(Failing)));
        assert_eq!(result.unwrap_err().to_string(), "disk full");
    }
}
