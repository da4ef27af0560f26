use mainstay_core::{Error, Result, contract};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::deferred::Deferred;
use crate::call::finished::Answer;

/// What can be an argument or part of a result of an interface method: an owned serde type that can be sent.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of an interface method",
    label = "this cannot be sent to another process",
    note = "a call may go to another process: add `#[derive(serde::Serialize, serde::Deserialize)]` to `{Self}`, and own \
            everything in it"
)]
pub trait Contract: Serialize + DeserializeOwned + Send + 'static {}

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
    /// What the caller gets.
    type Reply: Reply;

    /// False if the method has failed, and what it has changed is not to be kept.
    fn is_success(&self) -> bool;

    /// What the caller gets, at once or later.
    fn into_answer(self) -> Answer<Self::Reply>;
}

/// What the caller of an interface method gets.
pub trait Reply: Sized + Send + 'static {
    /// The result of a call that failed on the way.
    fn failed(error: Error) -> Self;

    /// The bytes by which the same answer can be given again.
    ///
    /// # Errors
    /// As [`contract::encode`].
    fn encode(&self) -> Result<Vec<u8>>;

    /// The answer that was encoded.
    ///
    /// # Errors
    /// As [`contract::decode`].
    fn decode(bytes: &[u8]) -> Result<Self>;
}

#[diagnostic::do_not_recommend]
impl<T: Contract, E: Contract + From<Error>> Outcome for Result<T, E> {
    type Reply = Self;

    #[inline]
    fn is_success(&self) -> bool {
        self.is_ok()
    }

    #[inline]
    fn into_answer(self) -> Answer<Self> {
        Answer::Now(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Contract, E: Contract + From<Error>> Outcome for Result<Deferred<T, E>, E> {
    type Reply = Result<T, E>;

    #[inline]
    fn is_success(&self) -> bool {
        self.is_ok()
    }

    fn into_answer(self) -> Answer<Result<T, E>> {
        match self {
            Ok(deferred) => Answer::Later(deferred.into_later()),
            Err(error) => Answer::Now(Err(error)),
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Contract, E: Contract + From<Error>> Reply for Result<T, E> {
    fn failed(error: Error) -> Self {
        Err(error.into())
    }

    fn encode(&self) -> Result<Vec<u8>> {
        contract::encode(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        contract::decode(bytes)
    }
}

/// Compiles if the type is a [`Contract`].
pub const fn assert_contract<T: Contract>() {}
