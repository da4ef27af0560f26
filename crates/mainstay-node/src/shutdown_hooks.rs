use std::fmt;
use std::pin::Pin;

use mainstay_core::task::{self, JoinHandle};
use mainstay_core::time::{self, Duration};
use mainstay_runtime::Services;

/// How long all that is to be done before a node stops may take together.
pub const SHUTDOWN_HOOK_TIMEOUT: Duration = Duration::from_secs(5);

type Hook = Box<dyn FnOnce(Services) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What is still to be done before a node stops. A stop that is given up half way leaves the rest to the next one.
#[derive(Default)]
pub(crate) struct ShutdownHooks {
    /// Those that have not begun. The last one is next.
    waiting: Vec<Hook>,
    /// The one that has begun, with its number.
    running: Option<(usize, JoinHandle<()>)>,
}

impl fmt::Debug for ShutdownHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.running.as_ref().map(|(number, _)| number);
        f.debug_struct("ShutdownHooks").field("waiting", &self.waiting.len()).field("running", &running).finish()
    }
}

impl ShutdownHooks {
    pub(crate) fn add<F>(&mut self, hook: impl FnOnce(Services) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Inside of its future, so that it is the hook that panics and not the stop.
        self.waiting.push(Box::new(|services| Box::pin(async move { hook(services).await })));
    }

    /// Runs them, what was added last first: that may rely on what was there before it. What panics or takes too long is left
    /// behind. If this is dropped, the hook that has begun goes on, and the next call waits for it before it begins another.
    pub(crate) async fn run(&mut self, services: &Services) {
        if let Err(time::Elapsed) = time::timeout(SHUTDOWN_HOOK_TIMEOUT, self.run_all(services)).await {
            tracing::warn!(
                "what was to be done before the node stops takes longer than {SHUTDOWN_HOOK_TIMEOUT:?}: it stops now"
            );
            *self = Self::default();
        }
    }

    async fn run_all(&mut self, services: &Services) {
        loop {
            if let Some((number, running)) = &mut self.running {
                if let Err(error) = running.await {
                    tracing::error!(number, ?error, "what was to be done before the node stops has failed");
                }
                self.running = None;
            }
            let Some(hook) = self.waiting.pop() else { return };
            self.running = Some((self.waiting.len(), task::spawn(hook(services.clone()))));
        }
    }
}
