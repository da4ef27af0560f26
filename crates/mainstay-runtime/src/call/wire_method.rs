use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use mainstay_core::Result;

use crate::call::arrival::Method;
use crate::call::caller::Caller;
use crate::call::wire_call::WireCall;

/// A method of an interface as other processes call it: by its name, with encoded arguments. `#[interface]` writes a table
/// of them.
#[derive(Clone, Copy)]
pub struct WireMethod {
    method: &'static Method,
    answer: AnswerFn,
}

/// Decodes the arguments, makes the call, and encodes the reply. An error is one of the runtime; the errors of the method itself are
/// in the reply.
type AnswerFn = fn(Caller, WireCall) -> BoxFuture<'static, Result<Bytes>>;

impl WireMethod {
    /// A method, with the call of it.
    pub const fn new(method: &'static Method, answer: AnswerFn) -> Self {
        Self { method, answer }
    }

    /// The name of the method.
    pub fn name(&self) -> &'static str {
        self.method.name()
    }

    /// Makes a call that has come from another process.
    pub fn answer(&self, caller: Caller, call: WireCall) -> BoxFuture<'static, Result<Bytes>> {
        (self.answer)(caller, call)
    }
}

impl fmt::Debug for WireMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.method.fmt(f)
    }
}
