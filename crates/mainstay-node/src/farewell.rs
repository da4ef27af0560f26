use std::fmt;
use std::pin::Pin;

use mainstay_core::task;
use mainstay_core::time::{self, Duration};
use mainstay_runtime::Services;

/// How long all that is to be done before a node stops may take together.
pub const SHUTDOWN_HOOK_TIMEOUT: Duration = Duration::from_secs(5);

type Farewell = Box<dyn FnOnce(Services) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What is to be done before a node stops.
#[derive(Default)]
pub(crate) struct Farewells(Vec<Farewell>);

impl fmt::Debug for Farewells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Farewells").field(&self.0.len()).finish()
    }
}

impl Farewells {
    pub(crate) fn add<F>(&mut self, farewell: impl FnOnce(Services) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Inside of its future, so that it is the farewell that panics and not the stop.
        self.0.push(Box::new(|services| Box::pin(async move { farewell(services).await })));
    }

    /// Does it, what was added last first: that may rely on what was there before it. What panics or takes too long is left
    /// behind.
    pub(crate) async fn say(self, services: &Services) {
        let all = async {
            for (number, farewell) in self.0.into_iter().enumerate().rev() {
                if let Err(error) = task::spawn(farewell(services.clone())).await {
                    tracing::error!(number, ?error, "what was to be done before the node stops has failed");
                }
            }
        };
        if let Err(time::Elapsed) = time::timeout(SHUTDOWN_HOOK_TIMEOUT, all).await {
            tracing::warn!(
                "what was to be done before the node stops takes longer than {SHUTDOWN_HOOK_TIMEOUT:?}: it stops now"
            );
        }
    }
}
