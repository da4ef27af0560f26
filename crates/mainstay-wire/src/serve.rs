use crate::incoming::Incoming;
use crate::policy::Introduction;

/// What an endpoint does with what it receives.
///
/// To be correct:
/// - No function blocks or waits: they run in the task that moves the bytes of a connection. What takes longer goes to a task, such as
///   by [`Incoming::answer_later`].
/// - A kind that is not known is answered with [`Incoming::refuse_kind`], and never stops anything.
/// - An [`Incoming`] is let go of as soon as it was handled, because its sender was granted so many of them and no more.
pub trait Serve: Send + Sync + 'static {
    /// A message has come.
    fn receive(&self, incoming: Incoming);

    /// A connection was made. Messages of it come after this.
    fn connected(&self, peer: &Introduction) {
        let _ = peer;
    }

    /// A connection is gone, and its peer is not reached by another one of the lane already.
    fn disconnected(&self, peer: &Introduction, cause: &str) {
        let _ = (peer, cause);
    }
}
