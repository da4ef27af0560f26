use mainstay_core::{Error, ErrorKind};

/// What a caller is told whose call has run without a commit of its own, and whose answer cannot leave because the lease of the
/// primary was lost meanwhile: the answer may be older than what another primary has acknowledged.
///
/// A call that may have changed something on its way, by calling others or by commits that it made before, must not be repeated
/// blindly; any other is free to be tried at the primary.
#[cold]
pub(crate) fn unproven(refusal: Error, has_effects: bool) -> Error {
    if !has_effects || !matches!(refusal.kind(), ErrorKind::NotPrimary { .. }) {
        return refusal;
    }
    Error::new(
        ErrorKind::OutcomeUnknown,
        "this node stopped being primary while the call ran, and the call had changed something or called others by then: read \
         before you repeat the call",
    )
    .with_source(refusal)
}
