use std::pin::pin;
use std::sync::Arc;

use mainstay_core::time;
use mainstay_core::{Backoff, Epoch, NodeId};
use mainstay_state::{Partition, Role, RoleState, StateOptions};
use tokio::sync::watch;

use crate::actor::activation::ActorOptions;
use crate::actor::memory_budget::MemoryBudget;
use crate::actor::settings::ActorSettings;
use crate::observe::counters::ActorCounters;
use crate::router::Services;
use crate::service::activation::{Activation, OpenFn, PartitionContext};
use crate::slot::{Slot, SlotState};

/// One partition of a service on this node, with the dependencies of its objects.
pub(crate) struct ServedPartition {
    pub(crate) node: NodeId,
    pub(crate) partition: Partition,
    pub(crate) slot: Arc<Slot>,
    pub(crate) services: Services,
    /// The memory budget of the service's actors on this node.
    pub(crate) memory_budget: Arc<MemoryBudget>,
    /// The metrics of the service's actors on this node.
    pub(crate) counters: Arc<ActorCounters>,
    /// True once the node stops.
    pub(crate) stop: watch::Receiver<bool>,
}

/// Follows the role of a partition: opens its objects when this node becomes primary, closes them when the role ends, and reopens
/// them, with backoff, when opening fails or the state closes itself.
pub(crate) async fn follow_role(
    mut served: ServedPartition,
    open: OpenFn,
    options: ActorOptions,
    settings: ActorSettings,
    state: StateOptions,
) {
    let _stopped = StopSlotOnDrop(served.slot.clone());
    let mut role_state = served.partition.watch();
    // One backoff for failures to open, one for a state that opens and then closes itself again and again.
    let (mut backoff, mut reopening) = (Backoff::default().retries(), Backoff::default().retries());
    loop {
        let now = *role_state.borrow_and_update();
        if *served.stop.borrow() {
            break;
        }
        if now.role != Role::Primary {
            served.slot.put(unserved_state(&now, served.node));
            tokio::select! {
                changed = role_state.changed() => if changed.is_err() { break },
                _ = served.stop.wait_for(|stop| *stop) => break,
            }
            continue;
        }
        if !matches!(served.slot.state(), SlotState::Failed { .. }) {
            served.slot.put(SlotState::Opening);
        }
        let opened = tokio::select! {
            biased;
            () = left(&mut role_state, now.epoch) => continue,
            _ = served.stop.wait_for(|stop| *stop) => break,
            opened = open(PartitionContext {
                address: served.slot.address().clone(),
                partition: served.partition.clone(),
                epoch: now.epoch,
                services: served.services.clone(),
                options: options.clone(),
                settings: settings.clone(),
                state: state.clone(),
                memory_budget: served.memory_budget.clone(),
                audience: served.slot.audience().clone(),
                counters: served.counters.clone(),
            }) => opened,
        };
        match opened {
            Ok(activation) => {
                backoff.reset();
                let quiescence = served.partition.quiescence();
                served.slot.put(SlotState::Open(activation.opened()));
                let begun = time::now();
                let end = tokio::select! {
                    () = left(&mut role_state, now.epoch) => End::RoleLost,
                    () = activation.ended() => End::StateClosed,
                    _ = served.stop.wait_for(|stop| *stop) => End::Stopped,
                    () = quiescence.requested() => End::HandOver,
                };
                if end == End::HandOver {
                    served.slot.put(SlotState::HandingOver(activation.opened()));
                    tokio::select! {
                        () = activation.quiesce() => {}
                        // The calls had their time.
                        () = left(&mut role_state, now.epoch) => {}
                        _ = served.stop.wait_for(|stop| *stop) => {}
                    }
                }
                served.close(activation, &mut role_state).await;
                if end == End::HandOver {
                    quiescence.done();
                    tokio::select! {
                        () = left(&mut role_state, now.epoch) => {}
                        // The role stays, and all is opened again.
                        () = quiescence.resumed() => {}
                        _ = served.stop.wait_for(|stop| *stop) => {}
                    }
                }
                if begun.elapsed() >= Backoff::default().max {
                    // The activation lasted, and so the next end is a new failure rather than the same one.
                    reopening.reset();
                }
                if end == End::StateClosed {
                    tokio::select! {
                        () = time::sleep(reopening.pause()) => {}
                        () = left(&mut role_state, now.epoch) => {}
                        _ = served.stop.wait_for(|stop| *stop) => {}
                    }
                }
            }
            Err(error) => {
                let pause = backoff.pause();
                let address = served.slot.address();
                tracing::error!(%address, ?error, pause_ms = pause.as_millis() as u64, "a partition cannot be opened; opening is retried");
                served.slot.put(SlotState::Failed { kind: error.kind(), why: error.to_string().into() });
                tokio::select! {
                    () = time::sleep(pause) => {}
                    () = left(&mut role_state, now.epoch) => {}
                    _ = served.stop.wait_for(|stop| *stop) => {}
                }
            }
        }
    }
}

/// Why an activation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Another node is primary, or may be.
    RoleLost,
    /// The state has closed itself.
    StateClosed,
    /// The node stops.
    Stopped,
    /// The role is about to be handed over.
    HandOver,
}

impl ServedPartition {
    /// Closes the objects, which may take a grace period. Calls do not wait for that: as soon as the primary is known they are sent
    /// there.
    async fn close(&self, activation: Box<dyn Activation>, role_state: &mut watch::Receiver<RoleState>) {
        let mut closing = pin!(activation.close());
        loop {
            self.slot.put(match *self.stop.borrow() {
                true => SlotState::Stopped,
                false => unserved_state(&role_state.borrow_and_update(), self.node),
            });
            tokio::select! {
                biased;
                () = &mut closing => return,
                changed = role_state.changed() => if changed.is_err() {
                    // The replica is gone: nothing changes any more.
                    return closing.await;
                },
            }
        }
    }
}

/// Stops a slot when its role is no longer followed, also because the runtime of the node has ended: callers and subscribers
/// that wait at the slot are told.
struct StopSlotOnDrop(Arc<Slot>);

impl Drop for StopSlotOnDrop {
    fn drop(&mut self) {
        self.0.put(SlotState::Stopped);
    }
}

/// The state of the slot while this node is not primary.
fn unserved_state(role_state: &RoleState, here: NodeId) -> SlotState {
    match role_state.primary {
        // This node may be elected and not ready yet: calls wait for it.
        Some(node) if node != here => SlotState::PrimaryElsewhere(node),
        _ => SlotState::NoPrimary,
    }
}

/// Waits until this node is no longer primary in this epoch.
async fn left(role_state: &mut watch::Receiver<RoleState>, epoch: Epoch) {
    let gone = |role_state: &RoleState| role_state.role != Role::Primary || role_state.epoch != epoch;
    // An error means that the replica was dropped, which ends the role as well.
    let _ = role_state.wait_for(gone).await;
}
