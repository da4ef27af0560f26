#![allow(clippy::disallowed_methods, reason = "these are tests of the module that provides them")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::*;

/// Says when it is dropped, which is when the task that owns it is.
struct Guard(Option<oneshot::Sender<()>>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.take().map(|sender| sender.send(()));
    }
}

fn guard() -> (Guard, oneshot::Receiver<()>) {
    let (sender, receiver) = oneshot::channel();
    (Guard(Some(sender)), receiver)
}

#[tokio::test]
async fn a_task_runs_and_leaves_its_scope() {
    let scope = Scope::default();
    assert_eq!(scope.spawn(async { 5 }).await.unwrap(), 5);
    assert!(scope.running().as_ref().unwrap().is_empty());
}

#[tokio::test]
async fn stopping_a_scope_stops_what_its_tasks_have_started() {
    let scope = Scope::new();
    let (outer, outer_dropped) = guard();
    let (inner, inner_dropped) = guard();
    let (started, is_started) = oneshot::channel();
    let task = scope.spawn(async move {
        let _outer = outer;
        drop(spawn(async move {
            let _inner = inner;
            let _ = started.send(());
            std::future::pending::<()>().await;
        }));
        std::future::pending::<()>().await;
    });
    is_started.await.unwrap();
    scope.stop();
    assert!(task.await.unwrap_err().is_cancelled());
    outer_dropped.await.unwrap();
    inner_dropped.await.unwrap();
    assert!(scope.is_stopped());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scope_has_ended_when_all_that_its_tasks_held_is_free() {
    let scope = Scope::new();
    scope.ended().await;
    let held = Arc::new(());
    for _ in 0..50 {
        let held = held.clone();
        drop(scope.spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        }));
    }
    scope.stop();
    scope.ended().await;
    assert_eq!(Arc::strong_count(&held), 1);
}

#[tokio::test]
async fn a_task_that_never_ran_leaves_after_what_it_held() {
    struct LooksAtItsScope(Scope, Arc<AtomicU64>);
    impl Drop for LooksAtItsScope {
        fn drop(&mut self) {
            self.1.store(self.0.alive(), Ordering::SeqCst);
        }
    }
    let scope = Scope::new();
    let seen = Arc::new(AtomicU64::new(0));
    let held = LooksAtItsScope(scope.clone(), seen.clone());
    let task = scope.spawn(async move {
        let _held = held;
    });
    scope.stop();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_runs_in_a_scope_that_was_stopped() {
    let scope = Scope::new();
    scope.stop();
    for _ in 0..200 {
        assert!(scope.spawn(async { panic!("ran in a stopped scope") }).await.unwrap_err().is_cancelled());
    }
    let nested = scope.enter(async { spawn(async { panic!("ran in a stopped scope") }).await }).await;
    assert!(nested.unwrap_err().is_cancelled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scope_that_is_stopped_while_tasks_start_keeps_none_running() {
    for _ in 0..50 {
        let scope = Scope::new();
        let other = scope.clone();
        let starter =
            tokio::spawn(async move { (0..20).map(|_| other.spawn(std::future::pending::<()>())).collect::<Vec<_>>() });
        scope.stop();
        for task in starter.await.unwrap() {
            assert!(task.await.unwrap_err().is_cancelled());
        }
    }
}

#[tokio::test]
async fn what_a_function_starts_belongs_to_the_scope_that_it_runs_within() {
    let scope = Scope::new();
    let task = scope.within(|| spawn(std::future::pending::<()>()));
    let free = spawn(async { 1 });
    scope.stop();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(free.await.unwrap(), 1);
}

#[test]
fn what_is_at_home_elsewhere_runs_there_whoever_starts_it() {
    let runtime = |_: u8| tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (own, other) = (runtime(1), runtime(2));
    let (home, scope) = (Scope::new(), Scope::new());
    let home = own.block_on(home.enter(async { Home::current() }));
    // From another runtime, from a scope that was stopped, and from no runtime at all.
    let (sender, mut receiver) = tokio::sync::mpsc::channel(3);
    let start = |number: u8| {
        let sender = sender.clone();
        home.spawn(async move {
            let _ = sender.send((number, Handle::current().id())).await;
        });
    };
    other.block_on(async { start(1) });
    drop(other);
    scope.stop();
    own.block_on(scope.enter(async { start(2) }));
    start(3);
    let (id, mut got) = (own.handle().id(), [1, 2, 3].map(|_| own.block_on(receiver.recv()).unwrap()));
    got.sort_by_key(|(number, _)| *number);
    assert_eq!(got, [1, 2, 3].map(|number| (number, id)));
}

#[tokio::test]
async fn nothing_runs_in_a_home_that_is_gone() {
    let scope = Scope::new();
    let home = scope.enter(async { Home::current() }).await;
    scope.stop();
    let (held, dropped) = guard();
    let (ran, has_run) = oneshot::channel();
    home.spawn(async move {
        let _held = held;
        ran.send(()).unwrap();
    });
    dropped.await.unwrap();
    has_run.await.unwrap_err();
}

#[tokio::test]
async fn scopes_are_apart_and_what_has_none_runs_on() {
    let (one, two) = (Scope::new(), Scope::new());
    let (release, released) = oneshot::channel::<()>();
    let survivor = two.spawn(released);
    let free = spawn(async { 1 });
    one.stop();
    release.send(()).unwrap();
    survivor.await.unwrap().unwrap();
    assert_eq!(free.await.unwrap(), 1);
}

#[test]
fn a_task_that_is_started_while_its_runtime_ends_is_dropped_and_blocks_nobody() {
    struct StartsOnDrop(Scope);
    impl Drop for StartsOnDrop {
        fn drop(&mut self) {
            drop(self.0.spawn(async {}));
        }
    }
    let scope = Scope::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let starts = StartsOnDrop(scope.clone());
    runtime.block_on(async {
        drop(tokio::spawn(async move {
            let _starts = starts;
            std::future::pending::<()>().await;
        }));
        tokio::task::yield_now().await;
    });
    drop(runtime);
    assert!(scope.running().as_ref().unwrap().is_empty());
}

#[test]
fn blocking_work_runs_in_place_on_one_thread_and_apart_from_it_on_many() {
    let here = std::thread::current().id();
    let one = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(one.block_on(blocking(|| std::thread::current().id())), here);
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    assert_ne!(many.block_on(blocking(|| std::thread::current().id())), here);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_panic_in_blocking_work_is_passed_on() {
    let caller = tokio::spawn(blocking(|| panic!("at work")));
    assert!(caller.await.unwrap_err().is_panic());
}

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn a_scope_keeps_to_the_runtime_in_which_it_was_made() {
    let (own, other) = (current_thread(), current_thread());
    let scope = own.block_on(async { Scope::new() });
    let start = || scope.spawn(async { Handle::current().id() });
    let started_elsewhere = {
        let _entered = other.enter();
        start()
    };
    let tasks = [started_elsewhere, start()];
    drop(other);
    for task in tasks {
        assert_eq!(own.block_on(task).unwrap(), own.handle().id());
    }
    drop(own);
    // Nothing runs where nothing is left, and nothing panics.
    assert!(current_thread().block_on(start()).unwrap_err().is_cancelled());
}

#[test]
fn a_home_knows_who_is_there() {
    let (own, other) = (current_thread(), current_thread());
    let home = own.block_on(async { Home::current() });
    let is_here = || std::future::poll_fn(|cx| std::task::Poll::Ready(home.is_here(cx)));
    let home_again = home.clone();
    for _ in 0..3 {
        assert!(own.block_on(is_here()));
        assert!(!other.block_on(is_here()));
        // In a task, of which is known where it runs, and within it on another runtime.
        let home = home_again.clone();
        let inside = move || {
            let home = home.clone();
            async move { std::future::poll_fn(|cx| std::task::Poll::Ready(home.is_here(cx))).await }
        };
        let task = own.spawn(async move { (inside().await, inside().await) });
        assert_eq!(own.block_on(task).unwrap(), (true, true));
    }
}

#[test]
fn a_task_that_blocks_on_another_runtime_is_not_at_home_there() {
    let own = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let home = own.block_on(async { Home::current() });
    let task = own.spawn(async move {
        let is_here = || std::future::poll_fn(|cx| std::task::Poll::Ready(home.is_here(cx)));
        let before = is_here().await;
        let within = tokio::task::block_in_place(|| current_thread().block_on(is_here()));
        (before, within, is_here().await)
    });
    assert_eq!(own.block_on(task).unwrap(), (true, false, true));
}

/// The waker by which a blocked thread waits is the same on every runtime of several threads.
#[test]
fn a_task_that_blocks_on_two_runtimes_is_at_home_on_its_own_alone() {
    let several = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let (own, other) = (several(), several());
    let home = own.block_on(async { Home::current() });
    let handle = own.handle().clone();
    let task = own.block_on(async { Scope::new() }).spawn(async move {
        let is_here = || std::future::poll_fn(|cx| std::task::Poll::Ready(home.is_here(cx)));
        let before = is_here().await;
        let (at_home, elsewhere) = tokio::task::block_in_place(|| {
            let seen = (handle.block_on(is_here()), other.block_on(is_here()));
            other.shutdown_background();
            seen
        });
        (before, at_home, elsewhere, is_here().await)
    });
    assert_eq!(own.block_on(task).unwrap(), (true, true, false, true));
}

#[test]
fn what_is_run_at_home_runs_there_and_ends_with_who_waits_for_it() {
    let own = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let home = own.block_on(async { Home::current() });
    let ran = current_thread().block_on(home.run(async { Handle::current().id() }));
    assert_eq!(ran, Ok(own.handle().id()));
    assert_eq!(own.block_on(home.run(async { 5 })), Ok(5));
    // Given up by a runtime that is dropped.
    let (held, dropped) = guard();
    let other = current_thread();
    let waiting = home.clone();
    drop(other.spawn(async move {
        waiting
            .run(async move {
                let _held = held;
                std::future::pending::<()>().await;
            })
            .await
    }));
    other.block_on(tokio::task::yield_now());
    drop(other);
    own.block_on(dropped).unwrap();
    drop(own);
    assert_eq!(current_thread().block_on(home.run(async { 5 })), Err(Gone));
}

#[test]
fn time_passes_by_the_clock_of_the_home_for_everybody() {
    let own = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let home = own.block_on(async { Home::current() });
    let short = crate::time::Duration::from_millis(1);
    // A runtime without a clock, whose owner could not wait by itself.
    let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
    other.block_on(home.sleep(short));
    assert_eq!(other.block_on(home.timeout(short, std::future::pending::<()>())), Err(crate::time::Elapsed));
    assert_eq!(other.block_on(home.timeout(short, async { 5 })), Ok(5));
    drop(own);
    assert_eq!(other.block_on(home.timeout(short, std::future::pending::<()>())), Err(crate::time::Elapsed));
}

/// How many short operations a task can make from now on.
fn operations_left() -> u32 {
    let mut operations = 0;
    while take_budget() {
        operations += 1;
        assert!(operations < 10_000, "there is no end");
    }
    operations
}

#[tokio::test]
async fn short_operations_use_up_a_budget_as_their_number_says() {
    tokio::task::yield_now().await;
    crate::random::seed_thread(1);
    assert_eq!(operations_left(), 4 * 128 + 3, "four for a unit, and three that the last one would have paid for");
    assert!(!tokio::task::coop::has_budget_remaining());
    yield_for_budget().await;
    assert!(tokio::task::coop::has_budget_remaining(), "others have run, and there is a new one");
}

#[tokio::test]
async fn a_seeded_thread_yields_where_it_did_before() {
    for before in 0..4 {
        tokio::task::yield_now().await;
        for _ in 0..before {
            assert!(take_budget());
        }
        crate::random::seed_thread(1);
        assert_eq!(operations_left(), 4 * 128 + 3, "after {before} operations");
    }
}
