use mainstay_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What can be an argument or part of a result of an interface method: an owned serde type that can be sent.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of an interface method",
    label = "this cannot be sent to another process",
    note = "a call may go to another process: add `#[derive(serde::Serialize, serde::Deserialize)]` to `{Self}`, and own \
            everything in it"
)]
pub trait Contract: Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + 'static> Contract for T {}

/// What an interface method returns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what an interface method returns",
    label = "return `Result<T>`, or `Result<T, E>` with an error of your own",
    note = "a result may come from another process: `T` and `E` need `#[derive(serde::Serialize, serde::Deserialize)]`",
    note = "every call can fail on the way: an error of your own needs `impl From<mainstay::Error>`"
)]
pub trait Outcome: Send + 'static {
    /// The result of a call that failed on the way.
    fn failed(error: Error) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Contract, E: Contract + From<Error>> Outcome for Result<T, E> {
    fn failed(error: Error) -> Self {
        Err(error.into())
    }
}

/// Compiles if the type is a [`Contract`].
pub const fn assert_contract<T: Contract>() {}
