use mainstay_core::time::{self, Duration};
use openraft::async_runtime::watch::{RecvError, Watch as _, WatchReceiver as _, WatchSender as _};

use crate::watch::{Receiver, ReplicaWatch};

/// What somebody hears who waits already when something happens.
async fn hears(receiver: &mut Receiver<u64>, cause: impl FnOnce()) -> Result<(), RecvError> {
    let waiting = async { tokio::join!(receiver.changed(), async { cause() }).0 };
    time::timeout(Duration::from_secs(1), waiting).await.expect("whoever waits is woken")
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_hears_of_every_kind_of_change_and_of_the_end() {
    let (sender, mut receiver) = ReplicaWatch::channel(0);
    hears(&mut receiver, || sender.send(1).unwrap()).await.unwrap();
    let add = |value: &mut u64| {
        *value += 1;
        true
    };
    hears(&mut receiver, || assert!(sender.send_if_modified(add))).await.unwrap();
    assert_eq!(*receiver.borrow_watched(), 2);
    let other = sender.clone();
    drop(sender);
    hears(&mut receiver, || drop(other)).await.unwrap_err();
}
