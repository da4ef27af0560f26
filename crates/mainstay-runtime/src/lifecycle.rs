use std::sync::Arc;

use mainstay_core::time;
use mainstay_core::{Epoch, NodeId};
use mainstay_state::{Partition, Role, Standing, StateOptions};
use tokio::sync::watch;

use crate::actor::activation::ActorOptions;
use crate::actor::population::Population;
use crate::actor::settings::ActorSettings;
use crate::backoff::{Backoff, PAUSE_MAX};
use crate::observe::ledger::Ledger;
use crate::router::Services;
use crate::service::activation::{Open, Place};
use crate::slot::{Occupant, Slot};

/// One partition of a service on this node, and what its object needs.
pub(crate) struct Post {
    pub(crate) node: NodeId,
    pub(crate) partition: Partition,
    pub(crate) slot: Arc<Slot>,
    pub(crate) services: Services,
    /// All actors of the service on this node, if it consists of actors.
    pub(crate) population: Arc<Population>,
    /// What is counted of the actors of the service on this node.
    pub(crate) ledger: Arc<Ledger>,
    /// True once the node is to stop.
    pub(crate) stop: watch::Receiver<bool>,
}

/// Follows the role of a partition: its object is there while the partition is primary here.
pub(crate) async fn attend(
    mut post: Post,
    open: Open,
    options: ActorOptions,
    settings: ActorSettings,
    state: StateOptions,
) {
    let mut standing = post.partition.watch();
    // One for what cannot be opened, and one for what closes itself again and again.
    let (mut backoff, mut reopening) = (Backoff::new(), Backoff::new());
    loop {
        let now = *standing.borrow_and_update();
        if *post.stop.borrow() {
            break;
        }
        if now.role != Role::Primary {
            post.slot.put(vacancy(&now, post.node));
            tokio::select! {
                changed = standing.changed() => if changed.is_err() { break },
                _ = post.stop.wait_for(|stop| *stop) => break,
            }
            continue;
        }
        if !matches!(post.slot.occupant(), Occupant::Failed { .. }) {
            post.slot.put(Occupant::Opening);
        }
        let opened = tokio::select! {
            biased;
            () = left(&mut standing, now.epoch) => continue,
            _ = post.stop.wait_for(|stop| *stop) => break,
            opened = open(Place {
                address: post.slot.address().clone(),
                partition: post.partition.clone(),
                epoch: now.epoch,
                services: post.services.clone(),
                options: options.clone(),
                settings: settings.clone(),
                state: state.clone(),
                population: post.population.clone(),
                audience: post.slot.audience().clone(),
                ledger: post.ledger.clone(),
            }) => opened,
        };
        match opened {
            Ok(activation) => {
                backoff.reset();
                post.slot.put(Occupant::Open(activation.opened()));
                let begun = time::now();
                let has_ended = tokio::select! {
                    () = left(&mut standing, now.epoch) => false,
                    () = activation.ended() => true,
                    _ = post.stop.wait_for(|stop| *stop) => false,
                };
                post.slot.put(if *post.stop.borrow() { Occupant::Stopped } else { Occupant::Awaited });
                activation.close().await;
                if begun.elapsed() >= PAUSE_MAX {
                    // It was well for a while, so this is another trouble.
                    reopening.reset();
                }
                if has_ended {
                    tokio::select! {
                        () = time::sleep(reopening.pause()) => {}
                        () = left(&mut standing, now.epoch) => {}
                        _ = post.stop.wait_for(|stop| *stop) => {}
                    }
                }
            }
            Err(error) => {
                let pause = backoff.pause();
                let address = post.slot.address();
                tracing::error!(%address, ?error, pause_ms = pause.as_millis() as u64, "cannot be opened, will be tried again");
                post.slot.put(Occupant::Failed { kind: error.kind(), why: error.to_string().into() });
                tokio::select! {
                    () = time::sleep(pause) => {}
                    () = left(&mut standing, now.epoch) => {}
                    _ = post.stop.wait_for(|stop| *stop) => {}
                }
            }
        }
    }
    post.slot.put(Occupant::Stopped);
}

/// What a slot holds where the partition is not primary.
fn vacancy(standing: &Standing, here: NodeId) -> Occupant {
    match standing.primary {
        // One that is elected here and not yet ready is about to be.
        Some(node) if node != here => Occupant::Elsewhere(node),
        _ => Occupant::Awaited,
    }
}

/// Waits until the partition is not primary in this epoch any more.
async fn left(standing: &mut watch::Receiver<Standing>, epoch: Epoch) {
    let gone = |standing: &Standing| standing.role != Role::Primary || standing.epoch != epoch;
    // An error means that the replica is gone, and the role with it.
    let _ = standing.wait_for(gone).await;
}
