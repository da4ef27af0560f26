use std::any::TypeId;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use mainstay_core::task::{self, Gone, Home};
use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{ActorId, Error, ErrorKind, Result};

use crate::actor::actor_shared::ActorShared;
use crate::actor::cell::removal::{Removal, Removing};
use crate::actor::event::Subscription;
use crate::actor::route_cache::{CachedRoute, RouteCache};
use crate::actor::{Event, Events};
use crate::call::arguments::{self, Arguments};
use crate::call::arrival::{Call, Deadline, Method};
use crate::call::chain::{CHAIN_MAX, CallWaitGuard};
use crate::call::contract::{MethodResult, Reply};
use crate::call::current::{self, Outgoing};
use crate::call::finished::{Finished, MethodAnswer};
use crate::call::foreign_runtime::ForeignCaller;
use crate::call::idempotency::CallKey;
use crate::call::object_host::{Progress, Queued, Start};
use crate::call::turn::{Subject, await_queued, conclude, drive_turn};
use crate::call::turn_scope::TurnScope;
use crate::call::wire_call::{WireCall, WireKey};
use crate::call::wire_method::WireMethod;
use crate::observe::outstanding_request::{OutstandingRequest, answered};
use crate::observe::trace::{Trace, actor_span, call_span};
use crate::remote::outgoing::{OutgoingCall, OutgoingParts};
use crate::remote::remote_calls::RemoteRoute;
use crate::router::{Address, Route, Router};
use crate::worker::handle::WorkerHandle;

/// The time limit of a call, unless its proxy or the settings of its actor set another.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// The maximum length of an idempotency key.
pub(crate) const IDEMPOTENCY_KEY_BYTES_MAX: usize = mainstay_state::actor::IDEMPOTENCY_KEY_BYTES_MAX;

/// The core of every proxy: the callee, the route to it, and the time limit of calls. Cheap to clone.
#[derive(Clone)]
pub struct Caller {
    target: Arc<Target>,
    timeout: Duration,
    key: Option<Arc<str>>,
    is_at_most_once: bool,
}

/// The callee of a proxy, with the routes to it.
struct Target {
    callee: Callee,
    /// The cached route to an actor; unused for other callees.
    routes: RouteCache,
}

enum Callee {
    /// The object of a service's partition.
    Partition { router: Arc<dyn Router>, address: Arc<Address> },
    /// An actor in a partition.
    Actor { router: Arc<dyn Router>, address: Arc<Address>, id: ActorId },
    /// Any instance of a worker in this process.
    Worker(Arc<WorkerHandle>),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.callee {
            Callee::Actor { address, id, .. } => write!(f, "{}({id})", address.service),
            Callee::Partition { address, .. } => address.fmt(f),
            Callee::Worker(handle) => handle.fmt(f),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.target)
    }
}

/// Starts a call at an object: makes a turn of it, or queues it.
pub(crate) type Starter<O, R, A> = fn(&O, A, Call, &mut Context<'_>) -> Start<R, A>;

/// The object of a call by a cached route, with the scope of its turn.
type ResolvedObject<O> = (Arc<O>, TurnScope);

impl Caller {
    pub(crate) fn new(router: Arc<dyn Router>, address: Arc<Address>, actor: Option<ActorId>) -> Self {
        let timeout = address.call_timeout;
        let callee = match actor {
            None => Callee::Partition { router, address },
            Some(id) => Callee::Actor { router, address, id },
        };
        Self::to(callee, timeout)
    }

    pub(crate) fn to_worker(handle: Arc<WorkerHandle>) -> Self {
        Self::to(Callee::Worker(handle), CALL_TIMEOUT_DEFAULT)
    }

    fn to(callee: Callee, timeout: Duration) -> Self {
        let target = Target { callee, routes: RouteCache::default() };
        Self { target: Arc::new(target), timeout, key: None, is_at_most_once: false }
    }

    /// The same callee with another time limit.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// The same callee with an idempotency key for its calls.
    #[must_use]
    pub fn idempotent(&self, key: &str) -> Self {
        Self { key: Some(key.into()), ..self.clone() }
    }

    /// The same callee, to which calls are not sent again.
    #[must_use]
    pub fn at_most_once(&self) -> Self {
        Self { is_at_most_once: true, ..self.clone() }
    }

    /// Subscribes to events of the actor.
    pub(crate) fn events<E: Event>(&self) -> Result<Events<E>> {
        let target = &self.target;
        let Callee::Actor { router, address, id } = &target.callee else {
            return Err(Error::invalid(format!(
                "{target} is not an actor, and publishes no events: subscribe to an actor, or watch a collection"
            )));
        };
        let slot = match router.route(address)? {
            Route::Local(slot) => Some(slot),
            Route::Remote(_) => router.slot(address),
        };
        let slot = slot.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("{target} is not known to this process: make a new proxy"))
        })?;
        Ok(Events::new(Subscription::anywhere(router, slot, id.clone(), E::NAME.into())?))
    }

    /// Calls a method: `start` makes a turn of the object.
    ///
    /// A call that has begun runs to its end, even if the caller drops this future. Dropping the future earlier, while the
    /// call waits for admission or in the mailbox, cancels the call without a trace.
    #[inline]
    pub fn call<O, R, A>(
        &self,
        method: &'static Method,
        arguments: A,
        start: Starter<O, R::Reply, A>,
    ) -> impl Future<Output = R::Reply> + Send
    where
        O: ?Sized + Send + Sync + 'static,
        R: MethodResult,
        A: Arguments,
    {
        let answers_later = R::ANSWERS_LATER;
        CallFuture { caller: self, method, start, arguments: Some(arguments), rest: None, answers_later }
    }

    /// The tokio runtime on which the calls run.
    fn home(&self) -> &Home {
        match &self.target.callee {
            Callee::Partition { router, .. } | Callee::Actor { router, .. } => router.home(),
            Callee::Worker(handle) => handle.home(),
        }
    }

    /// The span of a call that is made here.
    #[inline]
    fn trace(&self, method: &'static Method) -> Trace {
        Trace::new(|| match &self.target.callee {
            Callee::Actor { address, id, .. } => actor_span(&address.service, id, method),
            Callee::Partition { .. } | Callee::Worker(_) => call_span(&*self.target, method),
        })
    }

    /// The fast path of a call: an actor with a cached route, no idempotency key, no enclosing turn. Polls as far as
    /// possible without waiting, and returns the reply, or the future of the slow path.
    #[inline]
    fn call_at_once<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        arguments: A,
        start: Starter<O, R, A>,
        answers_later: bool,
        cx: &mut Context<'_>,
    ) -> Result<R, PendingReply<'c, R>>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Arguments,
    {
        let route = self.target.routes.first().and_then(|route| Some((&route.shared, route.object::<O>()?)));
        let is_plain =
            |shared: &ActorShared| self.key.is_none() && !current::is_in_turn() && shared.partition.home.is_here(cx);
        let Some((shared, object)) = route.filter(|(shared, _)| is_plain(shared)) else {
            return self.call_general(method, arguments, start, answers_later, cx);
        };
        let mut call = Call::new(method, Deadline::new(self.timeout, None));
        let arrived = shared.partition.counters.arrival(method);
        call.current.arrived = arrived;
        call.current.trace = self.trace(method);
        match start(object, arguments, call, cx) {
            Start::Turn(Progress::Finished(Finished { answer: MethodAnswer::Now(reply), hold: None })) => {
                answered(shared, method, arrived);
                Ok(reply)
            }
            started => {
                let outgoing = Outgoing { answers_later, ..Outgoing::default() };
                self.after_start(method, started, start, shared, arrived, outgoing)
            }
        }
    }

    /// The general form of [`call_at_once`](Caller::call_at_once): with an enclosing turn, an idempotency key, another
    /// runtime, or without a cached route.
    fn call_general<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        arguments: A,
        start: Starter<O, R, A>,
        answers_later: bool,
        cx: &mut Context<'_>,
    ) -> Result<R, PendingReply<'c, R>>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Arguments,
    {
        let outgoing = current::outgoing()
            .and_then(|outgoing| Ok(Outgoing { key: self.key_of(&arguments)?, answers_later, ..outgoing }));
        let outgoing = match outgoing {
            Ok(outgoing) => outgoing,
            Err(error) => return Ok(R::failed(error)),
        };
        if !self.home().is_here(cx) {
            return Err(self.call_from_foreign_runtime(method, arguments, start, outgoing));
        }
        let last = self.target.routes.last(|route: &CachedRoute| route.object::<O>().is_some());
        let route = last.route().and_then(|route| Some((&route.shared, route.object::<O>()?)));
        let Some((shared, object)) = route.filter(|_| outgoing.hold.is_none()) else {
            return Err(self.call_later(method, arguments, start, outgoing, self.trace(method)));
        };
        let mut call = Call::new(method, Deadline::new(self.timeout, outgoing.at_most));
        let arrived = shared.partition.counters.arrival(method);
        call.current.chain = outgoing.awaiting.as_ref().map(|awaiting| awaiting.chain().clone());
        call.current.arrived = arrived;
        call.current.key.clone_from(&outgoing.key);
        call.current.trace = self.trace(method);
        self.after_start(method, start(object, arguments, call, cx), start, shared, arrived, outgoing)
    }

    /// Handles the result of `start`: the reply, or the future that waits for it.
    #[allow(clippy::too_many_arguments, reason = "what is left of a call at the end of two ways that it can take")]
    fn after_start<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        started: Start<R, A>,
        start: Starter<O, R, A>,
        shared: &Arc<ActorShared>,
        arrived: Option<Instant>,
        outgoing: Outgoing,
    ) -> Result<R, PendingReply<'c, R>>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Arguments,
    {
        let turn = match started {
            Start::Turn(Progress::Finished(Finished { answer: MethodAnswer::Now(reply), hold: None })) => {
                answered(shared, method, arrived);
                return Ok(reply);
            }
            Start::Turn(turn) => StartedTurn::Turn(turn, TurnScope::Actor(shared.clone())),
            Start::Queued(queued) => StartedTurn::Queued(queued, TurnScope::Actor(shared.clone())),
            Start::Refused(error) => return Ok(R::failed(error)),
            Start::Gone(arguments, _) => {
                self.target.routes.forget();
                return Err(self.call_later(method, arguments, start, outgoing, self.trace(method)));
            }
        };
        let Outgoing { awaiting, at_most, .. } = outgoing;
        let deadline = Deadline::new(self.timeout, at_most);
        let started = StartedCall { caller: self, method, deadline, arrived, turn, awaiting };
        Err(Box::pin(async move { started.end().await.unwrap_or_else(R::failed) }))
    }

    /// A call that cannot start at once, because it waits for the commits of the enclosing turn or for its route.
    fn call_later<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        arguments: A,
        start: Starter<O, R, A>,
        outgoing: Outgoing,
        trace: Trace,
    ) -> PendingReply<'c, R>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Arguments,
    {
        Box::pin(async move {
            match Box::pin(self.begin(method, arguments, outgoing, start, trace)).await {
                Ok(begun) => begun.end().await.unwrap_or_else(R::failed),
                Err(error) => R::failed(error),
            }
        })
    }

    /// A call that is made on another runtime, or on none. The call runs as a task on the node's runtime, and is dropped
    /// with the caller. So the tasks that it starts outlive the foreign runtime, and use the node's clock.
    fn call_from_foreign_runtime<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        arguments: A,
        start: Starter<O, R, A>,
        outgoing: Outgoing,
    ) -> PendingReply<'c, R>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Arguments,
    {
        let (caller, trace) = (self.clone(), self.trace(method));
        let waiting = ForeignCaller(Arc::default());
        let outgoing = Outgoing { foreign_call: Some(waiting.0.clone()), ..outgoing };
        let call = async move { caller.call_later(method, arguments, start, outgoing, trace).await };
        Box::pin(async move {
            let _waiting = waiting;
            self.home().run_apart(call).await.unwrap_or_else(|Gone| {
                R::failed(Error::fatal(format!(
                    "`{}` of {} cannot be called, because the runtime of its node has ended: start the node again",
                    method.name(),
                    self.target
                )))
            })
        })
    }

    /// The interface of the methods that every actor has.
    pub(crate) const ACTOR_INTERFACE: &'static str = "mainstay/Actor";

    /// The methods that every actor has, as other processes call them.
    pub(crate) const ACTOR_METHODS: &'static [WireMethod] = &[
        WireMethod::new(&DEACTIVATE, |caller, call| {
            caller.answer::<dyn Removing, Result<()>, Removal>(&DEACTIVATE, call, remove)
        }),
        WireMethod::new(&DELETE, |caller, call| {
            caller.answer::<dyn Removing, Result<()>, Removal>(&DELETE, call, remove)
        }),
    ];

    /// Removes the actor, from memory or altogether.
    pub(crate) async fn remove(&self, removal: Removal) -> Result<()> {
        if !matches!(self.target.callee, Callee::Actor { .. }) {
            return Err(Error::invalid(format!("{} is not an actor: only actors can be removed", self.target)));
        }
        let method = if removal == Removal::Delete { &DELETE } else { &DEACTIVATE };
        // A deletion that was sent twice could delete the next actor of the id: it has no turn that could keep its answer.
        let caller = if removal == Removal::Delete { &self.at_most_once() } else { self };
        caller.call::<dyn Removing, Result<()>, _>(method, removal, remove).await
    }

    async fn begin<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        arguments: A,
        outgoing: Outgoing,
        start: Starter<O, R, A>,
        trace: Trace,
    ) -> Result<BegunCall<'c, R>>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Arguments,
    {
        let Outgoing { awaiting, at_most, hold, key, foreign_call, answers_later } = outgoing;
        let mut deadline = Deadline::new(self.timeout, at_most);
        if let Some(hold) = hold {
            let opened = match deadline.moment() {
                Some(moment) => time::timeout_at(moment, hold.opened()).await,
                None => Ok(hold.opened().await),
            };
            opened.unwrap_or_else(|time::Elapsed| {
                let (target, method) = (&self.target, method.name());
                Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "`{method}` of {target} was not called within the time limit, because earlier turns of the caller are not \
                         durable yet: nothing happened, retry"
                    ),
                ))
            })?;
        }
        let (mut arguments, mut call) = (Some(arguments), Call::new(method, deadline));
        call.current.chain = awaiting.as_ref().map(|awaiting| awaiting.chain().clone());
        call.current.key = key;
        call.current.trace = trace;
        // The call as it goes to another process, once it has to.
        let mut elsewhere: Option<Box<OutgoingCall>> = None;
        loop {
            let located = match (elsewhere.as_mut().and_then(|outgoing| outgoing.take_next()), self.cached::<O>()) {
                (Some(route), _) => Located::Elsewhere(route),
                (None, Some((object, turn_scope))) => Located::Here(object, turn_scope),
                (None, None) => self.admit::<O>(method, &mut deadline).await?,
            };
            let (object, turn_scope) = match located {
                Located::Here(object, turn_scope) => (object, turn_scope),
                Located::Elsewhere(route) => {
                    let outgoing = match &mut elsewhere {
                        Some(outgoing) => outgoing,
                        None => {
                            let encoded = self.encoded(method, arguments.take())?;
                            let outgoing = self.outgoing(method, encoded, &mut call, &mut deadline, answers_later)?;
                            elsewhere.insert(Box::new(outgoing))
                        }
                    };
                    match Box::pin(outgoing.attempt(route)).await? {
                        Some(reply) => return self.read_reply(method, &reply).map(BegunCall::Answered),
                        None => continue,
                    }
                }
            };
            let own = match (arguments.take(), &elsewhere) {
                (Some(arguments), _) => arguments,
                (None, Some(outgoing)) => {
                    outgoing.check_repeat()?;
                    call.current.key = outgoing.call_key();
                    arguments::decode(outgoing.arguments())?
                }
                (None, None) => return Err(self.without_arguments(method)),
            };
            let arrived = call.current.arrived.or_else(|| turn_scope.arrival(method));
            (call.current.deadline, call.current.arrived) = (deadline, arrived);
            let mut sent = Some((object, own, call));
            let started = poll_fn(|cx| match sent.take() {
                Some((object, arguments, call)) => Poll::Ready(start(&object, arguments, call, cx)),
                None => Poll::Pending,
            });
            match started.await {
                Start::Turn(turn) => {
                    let turn = StartedTurn::Turn(turn, turn_scope);
                    let started = StartedCall { caller: self, method, deadline, arrived, turn, awaiting };
                    return Ok(BegunCall::Started(started));
                }
                Start::Queued(queued) => {
                    if let Some(foreign_call) = &foreign_call {
                        foreign_call.queued(&queued.is_claimed);
                    }
                    let turn = StartedTurn::Queued(queued, turn_scope);
                    let started = StartedCall { caller: self, method, deadline, arrived, turn, awaiting };
                    return Ok(BegunCall::Started(started));
                }
                Start::Refused(error) => return Err(error),
                Start::Gone(returned, call_again) => {
                    (arguments, call) = (Some(returned), call_again);
                    self.target.routes.forget();
                }
            }
        }
    }

    /// The arguments as they travel.
    fn encoded<A: Arguments>(&self, method: &'static Method, arguments: Option<A>) -> Result<Bytes> {
        let arguments = arguments.ok_or_else(|| self.without_arguments(method))?;
        arguments::encode(&arguments)
            .map_err(|error| error.about(format_args!("`{}` of {}", method.name(), self.target)))
    }

    #[cold]
    fn without_arguments(&self, method: &'static Method) -> Error {
        let target = &self.target;
        Error::fatal(format!("`{}` of {target} has lost its arguments: this is a defect of the runtime", method.name()))
    }

    /// The call as it goes to another process.
    fn outgoing(
        &self,
        method: &'static Method,
        arguments: Bytes,
        call: &mut Call,
        deadline: &mut Deadline,
        answers_later: bool,
    ) -> Result<OutgoingCall> {
        let (router, address, actor) = match &self.target.callee {
            Callee::Partition { router, address } => (router, address, None),
            Callee::Actor { router, address, id } => (router, address, Some(id.clone())),
            Callee::Worker(_) => return Err(Error::fatal("a worker was looked for elsewhere: this is a defect")),
        };
        let session = router.remote().cloned().ok_or_else(|| {
            let target = &self.target;
            Error::new(
                ErrorKind::NotPrimary { hint: None },
                format!("{target} is not here, and there is no way to others"),
            )
        })?;
        let chain = call.current.chain.as_ref().map(|chain| chain.identities(CHAIN_MAX)).unwrap_or_default();
        OutgoingCall::new(OutgoingParts {
            session,
            router: router.clone(),
            address: address.clone(),
            actor,
            method,
            arguments,
            key: call.current.key.take(),
            chain,
            deadline: deadline.moment(),
            is_at_most_once: self.is_at_most_once,
            answers_later,
        })
    }

    /// The reply that has come from another process.
    fn read_reply<R: Reply>(&self, method: &'static Method, reply: &[u8]) -> Result<R> {
        R::decode(reply).map_err(|error| {
            let text = format!("`{}` of {} was carried out, and its reply cannot be read", method.name(), self.target);
            Error::new(ErrorKind::OutcomeUnknown, text).with_source(error)
        })
    }

    /// The idempotency key with the fingerprint of the arguments, by which a repeated call is recognized. The arguments are
    /// encoded only if there is a key.
    fn key_of<A: Arguments>(&self, arguments: &A) -> Result<Option<Arc<CallKey>>> {
        let Some(key) = &self.key else { return Ok(None) };
        if !matches!(self.target.callee, Callee::Actor { .. }) {
            return Err(Error::invalid(format!(
                "{} is not an actor, and stores no replies: call it without an idempotency key",
                self.target
            )));
        }
        if key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
            return Err(Error::invalid(format!(
                "idempotency key has {} bytes: use one of 1 to IDEMPOTENCY_KEY_BYTES_MAX = {IDEMPOTENCY_KEY_BYTES_MAX}",
                key.len()
            )));
        }
        Ok(Some(Arc::new(CallKey::Given { key: key.clone(), arguments: arguments::fingerprint(arguments)? })))
    }

    /// Makes a call that has come from another process, and encodes the reply.
    pub fn answer<O, R, A>(
        self,
        method: &'static Method,
        call: WireCall,
        start: Starter<O, R::Reply, A>,
    ) -> BoxFuture<'static, Result<Bytes>>
    where
        O: ?Sized + Send + Sync + 'static,
        R: MethodResult,
        A: Arguments,
    {
        Box::pin(async move {
            let WireCall { arguments, key, mut chain } = call;
            let arguments: A = arguments::decode(&arguments)
                .map_err(|error| error.about(format_args!("`{}` of {}", method.name(), self.target)))?;
            let (caller, key) = match key {
                None => (self, None),
                Some(WireKey::Given(key)) => {
                    let caller = self.idempotent(&key);
                    let key = caller.key_of(&arguments)?;
                    (caller, key)
                }
                Some(WireKey::Session(key)) => (self, Some(Arc::new(CallKey::Session(key)))),
            };
            let has_answer_kept = key.is_some();
            let outgoing = Outgoing { awaiting: chain.pop(), key, ..Outgoing::default() };
            let trace = caller.trace(method);
            let begun = caller.begin::<O, R::Reply, A>(method, arguments, outgoing, start, trace).await?;
            let reply = begun.end().await?;
            // The turns elsewhere wait until here.
            drop(chain);
            reply.encode().map(Bytes::from).map_err(|error| match method.is_exclusive() && !has_answer_kept {
                true => Error::new(
                    ErrorKind::OutcomeUnknown,
                    format!("`{}` of {} was carried out, and its reply cannot be sent", method.name(), caller.target),
                )
                .with_source(error),
                false => error.about(format_args!("the reply of `{}` of {}", method.name(), caller.target)),
            })
        })
    }

    /// The object by the cached route.
    fn cached<O: ?Sized + Send + Sync + 'static>(&self) -> Option<ResolvedObject<O>> {
        let last = self.target.routes.last(|route: &CachedRoute| route.object::<O>().is_some());
        let route = last.route()?;
        Some((route.object::<O>()?.clone(), TurnScope::Actor(route.shared.clone())))
    }

    /// Finds the object: here, once its partition is open, or elsewhere.
    async fn admit<O>(&self, method: &'static Method, deadline: &mut Deadline) -> Result<Located<O>>
    where
        O: ?Sized + Send + Sync + 'static,
    {
        let target = &self.target;
        let strange = || {
            Error::invalid(format!(
                "{target} does not implement the interface of `{}`: add it to its attribute",
                method.name()
            ))
        };
        let (router, address) = match &target.callee {
            Callee::Partition { router, address } | Callee::Actor { router, address, .. } => (router, address),
            Callee::Worker(handle) => {
                let object = handle.object::<O>().ok_or_else(strange)?;
                return Ok(Located::Here(object, TurnScope::Pool(handle.scope().clone())));
            }
        };
        let route = loop {
            let slot = match router.route(address)? {
                Route::Local(slot) => slot,
                Route::Remote(route) => return Ok(Located::Elsewhere(route)),
            };
            let admitted = match slot.admit(method.name(), deadline).await {
                Ok(admitted) => admitted,
                Err(error) => match error.kind() {
                    ErrorKind::NotPrimary { hint: Some(node) } if router.remote().is_some() => {
                        return Ok(Located::Elsewhere(RemoteRoute { node: Some(node), epoch: None }));
                    }
                    // Another slot has taken its place.
                    _ if slot.is_detached() && router.remote().is_some() => continue,
                    _ => return Err(error),
                },
            };
            let Callee::Actor { id, .. } = &target.callee else {
                let object = admitted.object::<O>().ok_or_else(strange)?;
                return Ok(Located::Here(object, TurnScope::Partition(admitted)));
            };
            // A closed table was taken out of its slot before, so the next iteration waits for another one.
            if let Some(route) = admitted.route(id, TypeId::of::<O>(), method.name())? {
                break route;
            }
        };
        let object = route.object::<O>().ok_or_else(strange)?.clone();
        let shared = route.shared.clone();
        target.routes.remember(route);
        Ok(Located::Here(object, TurnScope::Actor(shared)))
    }
}

/// Where the object of a call is.
enum Located<O: ?Sized> {
    /// In this process, with the scope of its turn.
    Here(Arc<O>, TurnScope),
    /// In another one.
    Elsewhere(RemoteRoute),
}

/// A call that has begun.
enum BegunCall<'c, R> {
    /// Here.
    Started(StartedCall<'c, R>),
    /// In another process, which has answered.
    Answered(R),
}

impl<R: Reply> BegunCall<'_, R> {
    /// The reply; an error is one of the runtime, apart from those of the method.
    async fn end(self) -> Result<R> {
        match self {
            Self::Started(started) => started.end().await,
            Self::Answered(reply) => Ok(reply),
        }
    }
}

static DEACTIVATE: Method = Method::new(Caller::ACTOR_INTERFACE, "deactivate");
static DELETE: Method = Method::new(Caller::ACTOR_INTERFACE, "delete").exclusive();

fn remove(place: &dyn Removing, removal: Removal, call: Call, _: &mut Context<'_>) -> Start<Result<()>, Removal> {
    place.remove(removal, call)
}

/// The future of a call.
struct CallFuture<'c, O: ?Sized, R, A> {
    caller: &'c Caller,
    method: &'static Method,
    start: Starter<O, R, A>,
    /// Present until the first poll.
    arguments: Option<A>,
    /// The slow path, if the first poll did not return the reply.
    rest: Option<PendingReply<'c, R>>,
    answers_later: bool,
}

/// No field is pinned structurally: the inner future has a box of its own.
impl<O: ?Sized, R, A> Unpin for CallFuture<'_, O, R, A> {}

impl<'c, O, R, A> Future for CallFuture<'c, O, R, A>
where
    O: ?Sized + Send + Sync + 'static,
    R: Reply,
    A: Arguments,
{
    type Output = R;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        if self.arguments.is_some() {
            // A call that is ready on its first poll never yields, so it takes part in tokio's cooperative budget.
            ready!(task::poll_budget(cx));
        }
        if let Some(arguments) = self.arguments.take() {
            match self.caller.call_at_once(self.method, arguments, self.start, self.answers_later, cx) {
                Ok(reply) => return Poll::Ready(reply),
                Err(rest) => self.rest = Some(rest),
            }
        }
        match &mut self.rest {
            Some(rest) => rest.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

/// A call that was admitted and has a turn, or is queued.
struct StartedCall<'c, R> {
    caller: &'c Caller,
    method: &'static Method,
    deadline: Deadline,
    arrived: Option<Instant>,
    turn: StartedTurn<R>,
    awaiting: Option<CallWaitGuard>,
}

/// The future of a reply that was not ready at once.
type PendingReply<'c, R> = Pin<Box<dyn Future<Output = R> + Send + 'c>>;

enum StartedTurn<R> {
    Turn(Progress<R>, TurnScope),
    /// The scope is kept, because a queued call counts against the bound of its slot.
    Queued(Queued<R>, TurnScope),
}

impl<R> StartedTurn<R> {
    /// The actor, if the callee is one.
    fn actor_shared(&self) -> Option<&Arc<ActorShared>> {
        match self {
            Self::Turn(_, TurnScope::Actor(shared)) | Self::Queued(_, TurnScope::Actor(shared)) => Some(shared),
            _ => None,
        }
    }
}

impl<R: Reply> StartedCall<'_, R> {
    /// The reply; an error is one of the runtime, apart from those of the method.
    async fn end(self) -> Result<R> {
        let Self { caller, method, mut deadline, arrived, turn, awaiting } = self;
        let request = turn.actor_shared().map(|shared| OutstandingRequest::new(shared, method, arrived));
        let subject = Subject { method: method.name(), target: &*caller.target };
        let finished = match turn {
            StartedTurn::Turn(turn, turn_scope) => drive_turn(turn, turn_scope, &subject, &mut deadline).await,
            StartedTurn::Queued(queued, _turn_scope) => await_queued(queued, &subject, &mut deadline).await,
        };
        let reply = match finished {
            Ok(finished) => conclude(finished, &subject, &mut deadline).await,
            Err(error) => Err(error),
        };
        drop(awaiting);
        if let Some(request) = request {
            request.answered();
        }
        reply
    }
}
