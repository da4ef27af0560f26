use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Into how many places counts are spread. Threads beyond share one.
const STRIPES: usize = 8;

thread_local! {
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Counts that threads add to at a place of their own, so that they do not wait for each other's caches.
#[derive(Debug, Default)]
pub(crate) struct Stripes<S>([Apart<S>; STRIPES]);

/// As far apart as processors fetch at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<S>(S);

impl<S> Stripes<S> {
    /// The place of this thread.
    #[inline]
    pub(crate) fn own(&self) -> &S {
        &self.0[OWN.get().unwrap_or_else(choose)].0
    }

    /// All places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &S> {
        self.0.iter().map(|Apart(stripe)| stripe)
    }
}

#[cold]
fn choose() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let own = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    OWN.set(Some(own));
    own
}
