use std::any::TypeId;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mainstay_core::contract::Fingerprinter;
use mainstay_core::task::{self, Gone, Home};
use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{ActorId, Error, ErrorKind, Result};

use crate::actor::cell::removal::{Removal, Removing};
use crate::actor::event::Subscription;
use crate::actor::seat::{Seat, Seats};
use crate::actor::site::Site;
use crate::actor::{Event, Events};
use crate::call::arrival::{Call, Deadline, Method};
use crate::call::chain::Awaiting;
use crate::call::contract::{Outcome, Reply};
use crate::call::current::{self, Outgoing};
use crate::call::elsewhere;
use crate::call::finished::{Answer, Finished};
use crate::call::ground::Ground;
use crate::call::host::{Progress, Queued, Start};
use crate::call::idempotency::{Arguments, CallKey};
use crate::call::turn::{Subject, conclude, go_on, wait_in_line};
use crate::observe::request::{Request, answered};
use crate::observe::trace::{Trace, actor_span, call_span};
use crate::router::{Address, Route, Router};
use crate::worker::desk::Desk;

/// How long a call may take unless its proxy or the settings of its actor say otherwise.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// The longest idempotency key.
pub(crate) const IDEMPOTENCY_KEY_BYTES_MAX: usize = mainstay_state::actor::IDEMPOTENCY_KEY_BYTES_MAX;

/// What every proxy consists of: whom it calls, how to get there, and how long that may take. Cheap to clone.
#[derive(Clone)]
pub struct Caller {
    target: Arc<Target>,
    timeout: Duration,
    key: Option<Arc<str>>,
}

/// Whom a proxy calls.
struct Target {
    whom: Whom,
    /// Where the actor was when it was last called, if it is one.
    seats: Seats,
}

enum Whom {
    /// The object of a service's partition.
    Partition { router: Arc<dyn Router>, address: Arc<Address> },
    /// An actor in a partition.
    Actor { router: Arc<dyn Router>, address: Arc<Address>, id: ActorId },
    /// Any instance of a worker in this process.
    Worker(Arc<Desk>),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.whom {
            Whom::Actor { address, id, .. } => write!(f, "{}({id})", address.service),
            Whom::Partition { address, .. } => address.fmt(f),
            Whom::Worker(desk) => desk.fmt(f),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.target)
    }
}

/// Makes a turn of an object, or has it wait.
pub(crate) type Starter<O, R, A> = fn(&O, A, Call, &mut Context<'_>) -> Start<R, A>;

/// What a call goes to, and where it is.
type Entry<O> = (Arc<O>, Ground);

impl Caller {
    pub(crate) fn new(router: Arc<dyn Router>, address: Arc<Address>, actor: Option<ActorId>) -> Self {
        let timeout = address.call_timeout;
        let whom = match actor {
            None => Whom::Partition { router, address },
            Some(id) => Whom::Actor { router, address, id },
        };
        Self::to(whom, timeout)
    }

    pub(crate) fn to_worker(desk: Arc<Desk>) -> Self {
        Self::to(Whom::Worker(desk), CALL_TIMEOUT_DEFAULT)
    }

    fn to(whom: Whom, timeout: Duration) -> Self {
        let target = Target { whom, seats: Seats::default() };
        Self { target: Arc::new(target), timeout, key: None }
    }

    /// The same with another time limit.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// The same with an idempotency key for its calls.
    #[must_use]
    pub fn idempotent(&self, key: &str) -> Self {
        Self { key: Some(key.into()), ..self.clone() }
    }

    /// Subscribes to events of the actor.
    pub(crate) fn events<E: Event>(&self) -> Result<Events<E>> {
        let target = &self.target;
        let Whom::Actor { router, address, id } = &target.whom else {
            return Err(Error::invalid(format!(
                "{target} is no actor, and publishes no events: subscribe to an actor, or watch a collection"
            )));
        };
        let Route::Local(slot) = router.route(address)?;
        Ok(Events::new(Subscription::open(slot, id.clone(), E::NAME)?))
    }

    /// Calls a method: `start` makes a turn of the object.
    ///
    /// A call that has begun is carried out to its end, even if the caller drops this future. Dropping it before, while it
    /// waits to be admitted, leaves nothing behind.
    #[inline]
    pub fn call<O, R, A>(
        &self,
        method: &'static Method,
        arguments: A,
        start: Starter<O, R::Reply, A>,
    ) -> impl Future<Output = R::Reply> + Send
    where
        O: ?Sized + Send + Sync + 'static,
        R: Outcome,
        A: Arguments,
    {
        Calling { caller: self, method, start, arguments: Some(arguments), rest: None }
    }

    /// Where its calls are made.
    fn home(&self) -> &Home {
        match &self.target.whom {
            Whom::Partition { router, .. } | Whom::Actor { router, .. } => router.home(),
            Whom::Worker(desk) => desk.home(),
        }
    }

    /// What a call is traced by that is made here.
    #[inline]
    fn trace(&self, method: &'static Method) -> Trace {
        Trace::new(|| match &self.target.whom {
            Whom::Actor { address, id, .. } => actor_span(&address.service, id, method),
            Whom::Partition { .. } | Whom::Worker(_) => call_span(&*self.target, method),
        })
    }

    /// Calls an actor that is where it was first, as far as that goes without waiting. Returns the answer, or the rest of the
    /// call.
    #[inline]
    fn call_at_once<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        arguments: A,
        start: Starter<O, R, A>,
        cx: &mut Context<'_>,
    ) -> Result<R, Rest<'c, R>>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Arguments,
    {
        let seat = self.target.seats.first().and_then(|seat| Some((&seat.site, seat.object::<O>()?)));
        let is_plain = |site: &Site| self.key.is_none() && !current::is_in_turn() && site.hall.home.is_here(cx);
        let Some((site, object)) = seat.filter(|(site, _)| is_plain(site)) else {
            return self.call_with_more(method, arguments, start, cx);
        };
        let mut call = Call::new(method, Deadline::new(self.timeout, None));
        let arrived = site.hall.ledger.arrival(method);
        call.current.arrived = arrived;
        call.current.trace = self.trace(method);
        match start(object, arguments, call, cx) {
            Start::Turn(Progress::Finished(Finished { answer: Answer::Now(reply), hold: None })) => {
                answered(site, method, arrived);
                Ok(reply)
            }
            started => self.go_on(method, started, start, site, arrived, Outgoing::default()),
        }
    }

    /// [`call_at_once`](Caller::call_at_once) for a call that takes more with it, or goes elsewhere.
    fn call_with_more<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        arguments: A,
        start: Starter<O, R, A>,
        cx: &mut Context<'_>,
    ) -> Result<R, Rest<'c, R>>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Arguments,
    {
        let outgoing =
            current::outgoing().and_then(|outgoing| Ok(Outgoing { key: self.key_of(&arguments)?, ..outgoing }));
        let outgoing = match outgoing {
            Ok(outgoing) => outgoing,
            Err(error) => return Ok(R::failed(error)),
        };
        if !self.home().is_here(cx) {
            return Err(self.call_from_elsewhere(method, arguments, start, outgoing));
        }
        let last = self.target.seats.last(|seat: &Seat| seat.object::<O>().is_some());
        let seat = last.seat().and_then(|seat| Some((&seat.site, seat.object::<O>()?)));
        let Some((site, object)) = seat.filter(|_| outgoing.hold.is_none()) else {
            return Err(self.call_later(method, arguments, start, outgoing, self.trace(method)));
        };
        let mut call = Call::new(method, Deadline::new(self.timeout, outgoing.at_most));
        let arrived = site.hall.ledger.arrival(method);
        call.current.chain = outgoing.awaiting.as_ref().map(|awaiting| awaiting.chain().clone());
        call.current.arrived = arrived;
        call.current.key.clone_from(&outgoing.key);
        call.current.trace = self.trace(method);
        self.go_on(method, start(object, arguments, call, cx), start, site, arrived, outgoing)
    }

    /// Goes on with a call that has arrived.
    #[allow(clippy::too_many_arguments, reason = "what is left of a call at the end of two ways that it can take")]
    fn go_on<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        started: Start<R, A>,
        start: Starter<O, R, A>,
        site: &Arc<Site>,
        arrived: Option<Instant>,
        outgoing: Outgoing,
    ) -> Result<R, Rest<'c, R>>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Send + 'c,
    {
        let turn = match started {
            Start::Turn(Progress::Finished(Finished { answer: Answer::Now(reply), hold: None })) => {
                answered(site, method, arrived);
                return Ok(reply);
            }
            Start::Turn(turn) => Started::Turn(turn, Ground::Actor(site.clone())),
            Start::Queued(queued) => Started::Queued(queued, Ground::Actor(site.clone())),
            Start::Refused(error) => return Ok(R::failed(error)),
            Start::Gone(arguments, _) => {
                self.target.seats.forget();
                return Err(self.call_later(method, arguments, start, outgoing, self.trace(method)));
            }
        };
        let Outgoing { awaiting, at_most, .. } = outgoing;
        let deadline = Deadline::new(self.timeout, at_most);
        Err(Box::pin(Begun { caller: self, method, deadline, arrived, turn, awaiting }.end()))
    }

    /// A call that cannot begin at once: it waits for the turn in which it is made, or for where it goes.
    fn call_later<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        arguments: A,
        start: Starter<O, R, A>,
        outgoing: Outgoing,
        trace: Trace,
    ) -> Rest<'c, R>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Send + 'c,
    {
        Box::pin(async move {
            match Box::pin(self.begin(method, arguments, outgoing, start, trace)).await {
                Ok(begun) => begun.end().await,
                Err(error) => R::failed(error),
            }
        })
    }

    /// A call that is made on another runtime, or on none: all of it is a task of the node's own, which ends with the caller as
    /// the call itself does. So whatever it starts outlives that other runtime, and has the node's clock.
    fn call_from_elsewhere<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        arguments: A,
        start: Starter<O, R, A>,
        outgoing: Outgoing,
    ) -> Rest<'c, R>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Send + 'static,
    {
        let (caller, trace) = (self.clone(), self.trace(method));
        let waiting = elsewhere::Waiting(Arc::default());
        let outgoing = Outgoing { elsewhere: Some(waiting.0.clone()), ..outgoing };
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

    /// Removes the actor.
    pub(crate) async fn remove(&self, removal: Removal) -> Result<()> {
        static DEACTIVATE: Method = Method::new("Actor", "deactivate");
        static DELETE: Method = Method::new("Actor", "delete");
        if !matches!(self.target.whom, Whom::Actor { .. }) {
            return Err(Error::invalid(format!("{} is no actor: only actors can be removed", self.target)));
        }
        let method = if removal == Removal::Delete { &DELETE } else { &DEACTIVATE };
        self.call::<dyn Removing, Result<()>, _>(method, removal, |place, removal, call, _| place.remove(removal, call))
            .await
    }

    async fn begin<'c, O, R, A>(
        &'c self,
        method: &'static Method,
        arguments: A,
        outgoing: Outgoing,
        start: Starter<O, R, A>,
        trace: Trace,
    ) -> Result<Begun<'c, R>>
    where
        O: ?Sized + Send + Sync + 'static,
        R: Reply,
        A: Send,
    {
        let Outgoing { awaiting, at_most, hold, key, elsewhere } = outgoing;
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
                        "`{method}` of {target} was not called within the time limit, because the turns before are not \
                         durable yet: nothing happened, retry"
                    ),
                ))
            })?;
        }
        let (mut arguments, mut call) = (arguments, Call::new(method, deadline));
        call.current.chain = awaiting.as_ref().map(|awaiting| awaiting.chain().clone());
        call.current.key = key;
        call.current.trace = trace;
        loop {
            let (object, ground) = match self.seated::<O>() {
                Some(entry) => entry,
                None => self.enter::<O>(method, &mut deadline).await?,
            };
            let arrived = call.current.arrived.or_else(|| ground.arrival(method));
            (call.current.deadline, call.current.arrived) = (deadline, arrived);
            let mut sent = Some((object, arguments, call));
            let started = poll_fn(|cx| match sent.take() {
                Some((object, arguments, call)) => Poll::Ready(start(&object, arguments, call, cx)),
                None => Poll::Pending,
            });
            match started.await {
                Start::Turn(turn) => {
                    let turn = Started::Turn(turn, ground);
                    return Ok(Begun { caller: self, method, deadline, arrived, turn, awaiting });
                }
                Start::Queued(queued) => {
                    if let Some(elsewhere) = &elsewhere {
                        elsewhere.queued(&queued.is_claimed);
                    }
                    let turn = Started::Queued(queued, ground);
                    return Ok(Begun { caller: self, method, deadline, arrived, turn, awaiting });
                }
                Start::Refused(error) => return Err(error),
                Start::Gone(returned, call_again) => {
                    (arguments, call) = (returned, call_again);
                    self.target.seats.forget();
                }
            }
        }
    }

    /// What makes a call with these arguments the same one if it is repeated. They are looked at if there is a key, and only
    /// then.
    fn key_of<A: Arguments>(&self, arguments: &A) -> Result<Option<Arc<CallKey>>> {
        let Some(key) = &self.key else { return Ok(None) };
        if !matches!(self.target.whom, Whom::Actor { .. }) {
            return Err(Error::invalid(format!(
                "{} is no actor, and keeps no answers: call it without an idempotency key",
                self.target
            )));
        }
        if key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
            return Err(Error::invalid(format!(
                "idempotency key of {} bytes: give one of 1 to IDEMPOTENCY_KEY_BYTES_MAX = {IDEMPOTENCY_KEY_BYTES_MAX}",
                key.len()
            )));
        }
        let mut fingerprinter = Fingerprinter::default();
        arguments.add_to(&mut fingerprinter)?;
        Ok(Some(Arc::new(CallKey { key: key.clone(), arguments: fingerprinter.finish() })))
    }

    /// The actor where it was last.
    fn seated<O: ?Sized + Send + Sync + 'static>(&self) -> Option<Entry<O>> {
        let last = self.target.seats.last(|seat: &Seat| seat.object::<O>().is_some());
        let seat = last.seat()?;
        Some((seat.object::<O>()?.clone(), Ground::Actor(seat.site.clone())))
    }

    async fn enter<O>(&self, method: &'static Method, deadline: &mut Deadline) -> Result<Entry<O>>
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
        let (router, address) = match &target.whom {
            Whom::Partition { router, address } | Whom::Actor { router, address, .. } => (router, address),
            Whom::Worker(desk) => {
                return Ok((desk.object::<O>().ok_or_else(strange)?, Ground::Pool(desk.scope().clone())));
            }
        };
        let seat = loop {
            let Route::Local(slot) = router.route(address)?;
            let ticket = slot.enter(method.name(), deadline).await?;
            let Whom::Actor { id, .. } = &target.whom else {
                return Ok((ticket.object::<O>().ok_or_else(strange)?, Ground::Partition(ticket)));
            };
            // A hall that is closed has been taken out of its slot before, and so the next look waits for another.
            if let Some(seat) = ticket.seat(id, TypeId::of::<O>(), method.name())? {
                break seat;
            }
        };
        let object = seat.object::<O>().ok_or_else(strange)?.clone();
        let site = seat.site.clone();
        target.seats.remember(seat);
        Ok((object, Ground::Actor(site)))
    }
}

/// A call that is being made.
struct Calling<'c, O: ?Sized, R, A> {
    caller: &'c Caller,
    method: &'static Method,
    start: Starter<O, R, A>,
    /// Until it is polled.
    arguments: Option<A>,
    /// What is left of it then, if it was not answered at once.
    rest: Option<Rest<'c, R>>,
}

/// Nothing in it is polled where it is but what has a box of its own.
impl<O: ?Sized, R, A> Unpin for Calling<'_, O, R, A> {}

impl<'c, O, R, A> Future for Calling<'c, O, R, A>
where
    O: ?Sized + Send + Sync + 'static,
    R: Reply,
    A: Arguments,
{
    type Output = R;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        if self.arguments.is_some() {
            // One that is answered at once never waits, and others of the runtime must have a chance all the same.
            ready!(task::poll_budget(cx));
        }
        if let Some(arguments) = self.arguments.take() {
            match self.caller.call_at_once(self.method, arguments, self.start, cx) {
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

/// A call that has been admitted.
struct Begun<'c, R> {
    caller: &'c Caller,
    method: &'static Method,
    deadline: Deadline,
    arrived: Option<Instant>,
    turn: Started<R>,
    awaiting: Option<Awaiting>,
}

/// What is left of a call that has begun.
type Rest<'c, R> = Pin<Box<dyn Future<Output = R> + Send + 'c>>;

enum Started<R> {
    Turn(Progress<R>, Ground),
    /// The ground is kept, because a call that waits is counted there.
    Queued(Queued<R>, Ground),
}

impl<R> Started<R> {
    /// The actor, if it is one that is called.
    fn site(&self) -> Option<&Arc<Site>> {
        match self {
            Self::Turn(_, Ground::Actor(site)) | Self::Queued(_, Ground::Actor(site)) => Some(site),
            _ => None,
        }
    }
}

impl<R: Reply> Begun<'_, R> {
    async fn end(self) -> R {
        let Self { caller, method, mut deadline, arrived, turn, awaiting } = self;
        let request = turn.site().map(|site| Request::new(site, method, arrived));
        let subject = Subject { method: method.name(), whom: &*caller.target };
        let finished = match turn {
            Started::Turn(turn, ground) => go_on(turn, ground, &subject, &mut deadline).await,
            Started::Queued(queued, _ground) => wait_in_line(queued, &subject, &mut deadline).await,
        };
        let reply = match finished {
            Ok(finished) => conclude(finished, &subject, &mut deadline).await,
            Err(error) => R::failed(error),
        };
        drop(awaiting);
        if let Some(request) = request {
            request.answered();
        }
        reply
    }
}
