use quote::ToTokens;

/// What is wrong with the input, all of it, so that a user corrects it in one go.
#[derive(Default)]
pub(super) struct Refusals(Option<syn::Error>);

impl Refusals {
    pub(super) fn add(&mut self, what: impl ToTokens, message: impl std::fmt::Display) {
        self.include(syn::Error::new_spanned(what, message));
    }

    pub(super) fn include(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub(super) fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
