use std::cell::RefCell;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

thread_local! {
    /// What the run on this thread has seen: nothing while none is under way.
    static FIRST: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Notices every panic on this thread while it lives, also of tasks that nobody waits for: whoever catches a panic
/// ends a task early, and a run that goes on without it proves nothing.
///
/// A run is one thread, so that runs side by side are told apart.
#[derive(Debug)]
pub(crate) struct Panics(());

impl Panics {
    pub(crate) fn watch() -> Self {
        HOOK.call_once(|| {
            let others = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                note(info);
                others(info);
            }));
        });
        FIRST.set(Some(None));
        Self(())
    }

    /// The first panic: its words and its place.
    pub(crate) fn first(&self) -> Option<String> {
        FIRST.with_borrow(|first| first.clone().flatten())
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        FIRST.set(None);
    }
}

fn note(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let words =
        payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let words = words.unwrap_or("without a message");
    let place = info.location().map_or_else(String::new, |place| format!(" ({place})"));
    // A panic while this very thing is borrowed is not noted twice.
    let _ = FIRST.try_with(|first| {
        if let Ok(mut first) = first.try_borrow_mut()
            && let Some(seen) = &mut *first
        {
            seen.get_or_insert_with(|| format!("{words}{place}"));
        }
    });
}
