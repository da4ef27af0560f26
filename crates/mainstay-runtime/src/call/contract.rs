use mainstay_core::{Error, Result, contract};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::deferred::Deferred;
use crate::call::finished::MethodAnswer;

/// A type that can be an argument or part of a result of an interface method: an owned serde type that can be sent.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of an interface method",
    label = "this cannot be sent to another process",
    note = "a call may go to another process: add `#[derive(serde::Serialize, serde::Deserialize)]` to `{Self}`, and own \
            everything in it"
)]
pub trait Contract: Serialize + DeserializeOwned + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + 'static> Contract for T {}

/// The return type of an interface method.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what an interface method returns",
    label = "return `Result<T>`, or `Result<T, E>` with an error of your own",
    note = "a result may come from another process: `T` and `E` need `#[derive(serde::Serialize, serde::Deserialize)]`",
    note = "every call can fail on the way: an error of your own needs `impl From<mainstay::Error>`"
)]
pub trait MethodResult: Send + 'static {
    /// The result that the caller gets.
    type Reply: Reply;

    /// True if the reply comes from a later turn, and so cannot be stored with this turn for idempotent retries.
    const ANSWERS_LATER: bool = false;

    /// False if the method has failed, and its changes must be rolled back.
    fn is_success(&self) -> bool;

    /// The reply, or the wait for a deferred one.
    fn into_answer(self) -> MethodAnswer<Self::Reply>;
}

/// The result that the caller of an interface method gets.
pub trait Reply: Sized + Send + 'static {
    /// The result of a call that failed in the runtime.
    fn failed(error: Error) -> Self;

    /// The encoded reply, stored for idempotent retries.
    ///
    /// # Errors
    /// As [`contract::encode`].
    fn encode(&self) -> Result<Vec<u8>>;

    /// The reply that was encoded.
    ///
    /// # Errors
    /// As [`contract::decode`].
    fn decode(bytes: &[u8]) -> Result<Self>;
}

#[diagnostic::do_not_recommend]
impl<T: Contract, E: Contract + From<Error>> MethodResult for Result<T, E> {
    type Reply = Self;

    #[inline]
    fn is_success(&self) -> bool {
        self.is_ok()
    }

    #[inline]
    fn into_answer(self) -> MethodAnswer<Self> {
        MethodAnswer::Now(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Contract, E: Contract + From<Error>> MethodResult for Result<Deferred<T, E>, E> {
    type Reply = Result<T, E>;

    const ANSWERS_LATER: bool = true;

    #[inline]
    fn is_success(&self) -> bool {
        self.is_ok()
    }

    fn into_answer(self) -> MethodAnswer<Result<T, E>> {
        match self {
            Ok(deferred) => MethodAnswer::Later(deferred.into_later()),
            Err(error) => MethodAnswer::Now(Err(error)),
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Refusal {
        Empty,
        Code(u32),
        TooLittle { balance: u64, wanted: Option<u64> },
        OnTheWay(String),
    }

    impl From<Error> for Refusal {
        fn from(error: Error) -> Self {
            Self::OnTheWay(error.to_string())
        }
    }

    fn again<R: Reply>(reply: &R) -> R {
        R::decode(&reply.encode().unwrap()).unwrap()
    }

    #[test]
    fn replies_with_application_errors_round_trip() {
        let refusals = [
            Refusal::Empty,
            Refusal::Code(42),
            Refusal::TooLittle { balance: 7, wanted: None },
            Refusal::TooLittle { balance: 7, wanted: Some(u64::MAX) },
            Refusal::OnTheWay("→ lost".into()),
        ];
        for refusal in refusals {
            let reply: Result<Vec<u8>, Refusal> = Err(refusal);
            assert_eq!(again(&reply), reply);
        }
        let reply: Result<Vec<u8>, Refusal> = Ok(vec![1, 2]);
        assert_eq!(again(&reply), reply);
        let reply = Result::<(), Refusal>::failed(Error::invalid("no such thing"));
        assert_eq!(again(&reply), Err(Refusal::OnTheWay("no such thing".into())));
    }

    #[test]
    fn replies_with_runtime_errors_round_trip() {
        let reply: Result<u32> = Err(Error::new(mainstay_core::ErrorKind::Retry, "later"));
        let error = again(&reply).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (mainstay_core::ErrorKind::Retry, "later".to_owned()));
        // Bytes of another type are an error, and never decoded as a wrong value.
        assert!(Result::<String, Refusal>::decode(&Result::<u32, Refusal>::Ok(7).encode().unwrap()).is_err());
    }
}
