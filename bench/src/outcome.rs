use std::error::Error;

/// What can break breaks the run: a figure is never made up for it.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// An error and its causes, in one line.
pub(crate) fn explain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
