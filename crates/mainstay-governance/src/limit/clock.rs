use mainstay::actor::suspended;
use tokio::time::Instant;

/// The current moment on a clock that goes on while the machine is suspended: others have seen that time pass, and may have
/// been given what was held here. To be compared with what it has shown before, and not to be slept for.
pub(super) fn now() -> Instant {
    Instant::now() + suspended()
}
