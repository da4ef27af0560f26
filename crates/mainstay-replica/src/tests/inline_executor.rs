//! A bundle runs its members whoever polls it, loses no wake-up, and leaves nothing behind.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstay_core::task::{self, Scope};
use openraft::AsyncRuntime as _;
use tokio::sync::{mpsc, oneshot};

use crate::inline_executor::{self, InlineExecutor, JoinError, JoinHandle};
use crate::runtime::ReplicaRuntime;

/// How many messages may wait for an echo.
const WAITING_MAX: usize = 1024;

type Question = (u64, oneshot::Sender<u64>);

/// Two members: one takes questions and hands them to the other, which answers with the double.
async fn doubling(scope: &Scope) -> (InlineExecutor, mpsc::Sender<Question>) {
    let executor = InlineExecutor::new(scope);
    let (ask, mut asked) = mpsc::channel::<Question>(WAITING_MAX);
    let (hand, mut handed) = mpsc::channel::<Question>(WAITING_MAX);
    let start = async {
        drop(inline_executor::spawn(async move {
            while let Some(question) = asked.recv().await {
                hand.send(question).await.unwrap();
            }
        }));
        drop(inline_executor::spawn(async move {
            while let Some((number, answer)) = handed.recv().await {
                answer.send(number * 2).unwrap();
            }
        }));
    };
    executor.gather(start).await;
    (executor, ask)
}

async fn spawn_in<T: Send + 'static>(
    scope: &Scope,
    future: impl Future<Output = T> + Send + 'static,
) -> (InlineExecutor, JoinHandle<T>) {
    let executor = InlineExecutor::new(scope);
    let (handle,) = executor.gather(async { (inline_executor::spawn(future),) }).await;
    (executor, handle)
}

#[tokio::test]
async fn members_answer_within_the_call_that_asks() {
    let (executor, ask) = doubling(&Scope::new()).await;
    let (answer, mut answered) = oneshot::channel();
    executor.run_until_idle(|| ask.try_send((21, answer)).unwrap());
    assert_eq!(answered.try_recv().unwrap(), 42);
}

#[tokio::test]
async fn members_run_in_the_bundles_own_task_too() {
    let (_bundle, ask) = doubling(&Scope::new()).await;
    let (answer, answered) = oneshot::channel();
    ask.send((21, answer)).await.unwrap();
    assert_eq!(answered.await.unwrap(), 42);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost_where_many_ask_at_once() {
    let (executor, ask) = doubling(&Scope::new()).await;
    let asker = |at_once: bool| {
        let (executor, ask) = (executor.clone(), ask.clone());
        task::spawn(async move {
            for number in 0..5_000 {
                let (answer, answered) = oneshot::channel();
                let question = || ask.try_send((number, answer)).unwrap();
                if at_once {
                    executor.run_until_idle(question);
                } else {
                    question();
                }
                assert_eq!(answered.await.unwrap(), number * 2);
            }
        })
    };
    let askers: Vec<_> = (0..8).map(|number| asker(number % 2 == 0)).collect();
    for asker in askers {
        asker.await.unwrap();
    }
}

#[tokio::test]
async fn a_result_comes_back_and_the_bundle_ends_with_its_last_member() {
    let scope = Scope::new();
    let (_bundle, handle) = spawn_in(&scope, async { 5 }).await;
    assert_eq!(handle.await, Ok(5));
    scope.ended().await;
}

#[tokio::test]
async fn a_bundle_whose_last_member_ends_in_somebody_elses_task_ends() {
    let scope = Scope::new();
    let (release, released) = oneshot::channel::<()>();
    let (executor, handle) = spawn_in(&scope, released).await;
    tokio::task::yield_now().await;
    executor.run_until_idle(|| release.send(()).unwrap());
    assert_eq!(handle.await, Ok(Ok(())));
    scope.ended().await;
}

#[tokio::test]
async fn a_member_that_panics_says_so_and_harms_no_other() {
    let executor = InlineExecutor::new(&Scope::new());
    let start = async { (inline_executor::spawn(async { panic!("on purpose") }), inline_executor::spawn(async { 5 })) };
    let (panics, works): (JoinHandle<()>, _) = executor.gather(start).await;
    assert_eq!(panics.await, Err(JoinError::Panicked("on purpose".to_owned())));
    assert_eq!(works.await, Ok(5));
}

#[tokio::test]
async fn stopping_the_scope_drops_the_members_and_nobody_polls_them_any_more() {
    let scope = Scope::new();
    let held = Arc::new(());
    let holds = held.clone();
    let (wake, mut woken) = mpsc::channel::<()>(1);
    let (executor, handle) = spawn_in(&scope, async move {
        let _holds = holds;
        woken.recv().await;
    })
    .await;
    tokio::task::yield_now().await;
    scope.stop();
    executor.run_until_idle(|| wake.try_send(()).unwrap());
    assert_eq!(handle.await, Err(JoinError::Stopped));
    scope.ended().await;
    assert_eq!(Arc::strong_count(&held), 1);
}

#[tokio::test]
async fn what_a_member_starts_belongs_to_the_scope_whoever_polls_the_member() {
    let scope = Scope::new();
    let (start, started) = oneshot::channel::<()>();
    let (executor, handle) = spawn_in(&scope, async move {
        started.await.unwrap();
        (task::spawn(std::future::pending::<()>()),)
    })
    .await;
    tokio::task::yield_now().await;
    let other = Scope::new();
    other.enter(async { executor.run_until_idle(|| start.send(()).unwrap()) }).await;
    let (task,) = handle.await.unwrap();
    scope.stop();
    assert!(task.await.unwrap_err().is_cancelled());
}

#[test]
fn a_call_from_another_runtime_leaves_the_members_to_their_own() {
    let build = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (own, other) = (build(), build());
    let (executor, ask) = own.block_on(async { doubling(&Scope::new()).await });
    let (answer, mut answered) = oneshot::channel();
    other.block_on(async { executor.run_until_idle(|| ask.try_send((21, answer)).unwrap()) });
    assert!(answered.try_recv().is_err());
    assert_eq!(own.block_on(answered).unwrap(), 42);
}

#[tokio::test]
async fn a_main_loop_that_always_finds_work_lets_others_have_their_turn() {
    let enough = Arc::new(AtomicBool::new(false));
    let seen = enough.clone();
    let work = async move {
        while !seen.load(Ordering::Relaxed) {
            ReplicaRuntime::select4(ready(()), ready(()), ready(()), ready(())).await;
        }
    };
    let (executor, handle) = spawn_in(&Scope::new(), work).await;
    executor.run_until_idle(|| ());
    task::spawn(async move { enough.store(true, Ordering::Relaxed) }).await.unwrap();
    assert_eq!(handle.await, Ok(()));
}
