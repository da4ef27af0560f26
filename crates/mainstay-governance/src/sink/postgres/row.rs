use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Values;

/// A row of a table.
///
/// ```
/// use mainstay::governance::sink::postgres::{Row, Values};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Event {
///     id: i64,
///     who: String,
///     note: Option<String>,
/// }
///
/// impl Row for Event {
///     const SERVICE: &'static str = "event-rows";
///     const COLUMNS: &'static [&'static str] = &["id", "who", "note"];
///
///     fn put(&self, values: &mut Values<'_>) {
///         values.push(&self.id).push(&self.who).push(&self.note);
///     }
/// }
/// ```
///
/// To be correct: [`put`](Row::put) pushes one value for each of [`COLUMNS`](Row::COLUMNS), in their order, each of a type
/// that `tokio-postgres` can send to a column like that.
pub trait Row: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of the service of the owners that write these rows: [`Resource::NAME`](crate::owner::Resource::NAME).
    const SERVICE: &'static str;

    /// The columns that are written, by name. Others get their defaults.
    const COLUMNS: &'static [&'static str];

    /// Hands over the values of the row.
    fn put(&self, values: &mut Values<'_>);
}
