//! Runs futures on one thread in an order that a seed decides.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use mainstay_core::time::{self, Duration};
use rand::RngExt as _;
use rand::rngs::StdRng;

/// After how many looks at nothing time passes.
const IDLE_LOOKS_MAX: u32 = 40;

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Session<'a> {
    future: Pin<Box<dyn Future<Output = ()> + 'a>>,
    woken: Arc<Woken>,
}

/// Polls the futures until all are ready, one step of one of them at a time, chosen by chance: those that were woken, and
/// now and then one that was not.
pub async fn drive<'a>(futures: Vec<Pin<Box<dyn Future<Output = ()> + 'a>>>, random: &mut StdRng) {
    let new = |future| Session { future, woken: Arc::new(Woken(AtomicBool::new(true))) };
    let mut sessions: Vec<Session<'a>> = futures.into_iter().map(new).collect();
    let mut idle_looks = 0;
    while !sessions.is_empty() {
        let woken: Vec<usize> =
            (0..sessions.len()).filter(|place| sessions[*place].woken.0.load(Ordering::SeqCst)).collect();
        let chosen = match woken.len() {
            0 if random.random_ratio(1, 4) => Some(random.random_range(0..sessions.len())),
            0 => None,
            _ if random.random_ratio(1, 16) => Some(random.random_range(0..sessions.len())),
            choices => Some(woken[random.random_range(0..choices)]),
        };
        idle_looks = if woken.is_empty() { idle_looks + 1 } else { 0 };
        if let Some(chosen) = chosen {
            let session = &mut sessions[chosen];
            session.woken.0.store(false, Ordering::SeqCst);
            let waker = Waker::from(session.woken.clone());
            if session.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                drop(sessions.swap_remove(chosen));
            }
        }
        if idle_looks > IDLE_LOOKS_MAX {
            time::sleep(Duration::from_millis(1)).await;
            idle_looks = 0;
        } else if chosen.is_none() || random.random_ratio(1, 3) {
            // Those behind the partition go on.
            tokio::task::yield_now().await;
        }
    }
}

/// Lets the others have their turn.
pub async fn turn() {
    tokio::task::yield_now().await;
}

/// Polls a future that often at most while it is not ready, then drops it.
pub async fn polled<F: Future>(future: F, polls_max: Option<u32>) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            polls += 1;
            if Some(polls) == polls_max { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}
