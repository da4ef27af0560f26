//! The macros of Mainstay. Applications use them through the façade, and what they write names the façade alone:
//! `::mainstay::…`, never one of the crates behind it.
//!
//! Each macro reads its input into a description of it, collecting everything that is wrong,
//! and writes code from a description that is right. What only the compiler can know, such as whether a type can be
//! serialized, is left to traits whose error messages say what to change.

mod derive;

mod actor;
mod event;
mod interface;
mod service;
mod worker;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemTrait, parse_macro_input};

/// Makes a trait of async methods something that can be called from anywhere.
///
/// For a trait `Inventory` it writes the proxy `InventoryRef`, which has the same methods and can be cloned and sent. The
/// trait itself stays a trait: implement it with `async fn`, for a service or (where a method takes `&mut self`) an
/// actor.
///
/// A call may go to another process. So a method takes `&self` or `&mut self` and owned arguments that are serde types, has
/// no generics, and returns `Result<T>`, or `Result<T, E>` with an error type of your own that is a serde type and
/// `From<mainstay::Error>`.
///
/// What other processes know of an interface is the names, and a program of another version may be at the other end:
///
/// ```text
/// #[interface(name = "inventory")]                  // the name of the interface; that of the trait unless told
/// trait Inventory {
///     #[method(name = "take")]                      // the name of the method; that in the code unless told
///     async fn reserve(
///         &mut self,
///         sku: String,
///         #[argument(name = "count")] quantity: u32,
///         #[argument(default)] note: Option<String>,  // what a caller does not send, because it does not know it yet
///         #[argument(default = 3)] tries: u32,
///     ) -> Result<()>;
///
///     /// A method that an implementation may leave out.
///     async fn audit(&self) -> Result<Vec<String>> {
///         Ok(Vec::new())
///     }
/// }
/// ```
///
/// An argument that the callee does not know is skipped; one that it misses and that has no default is refused with `Invalid`; a
/// method or an interface that it does not know with `Unsupported`. Nothing has happened then.
///
/// When a connection breaks, a call is sent again if that is safe: methods of actors always (those with `&mut self` are
/// carried out once all the same), those of services with `#[method(repeatable)]`.
///
/// The trait may be generic in types that live for ever, as in a library whose users bring them: `trait Owner<R: Resource>`
/// has the proxy `OwnerRef<R>`. Such a library names the call that adds its actors to a node, for the error that a user gets
/// who has left it out: `#[interface(served_by = "ResourceOwner::serve(builder, resource)")]`.
#[proc_macro_attribute]
pub fn interface(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as ItemTrait);
    interface::expand(arguments.into(), item).into()
}

/// Makes a struct a stateful service: one object per partition, alive where the partition is primary.
///
/// ```text
/// #[service(
///     implements(Inventory, Audit),   // the interfaces that it can be called by; none if it only runs
///     partitions = uniform(10),       // or uniform(4, 0..=99), named("eu", "us"), singleton; uniform(10) unless told
///     persistence = "persisted",      // or "volatile", "none"; "persisted" unless told
///     name = "inventory",             // the name of the struct unless told
///     run,                            // `async fn run(&self, ctx: ServiceContext) -> Result<()>` is started
/// )]
/// ```
///
/// Fields that are collections are opened under the name of the field (`#[service(name = "…")]` gives another), a
/// `StateManager` and a `ServiceContext` are given, a `Provided<T>` is what the node was given, and every other field is
/// `Default::default()`. What a field is follows from the name of its type; `#[service(collection)]` and
/// `#[service(default)]` say so where that name is your own. A field with `#[open(..)]` is what the expression opens, as for an
/// actor; `ctx` is the `ServiceContext` there.
#[proc_macro_derive(Service, attributes(service, open))]
pub fn derive_service(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    service::expand(&item).unwrap_or_else(|error| error.into_compile_error()).into()
}

/// Makes a struct a virtual actor: one object per id, there whenever it is called, with state that outlives it.
///
/// ```text
/// #[actor(
///     implements(Counter, Audit),     // the interfaces that it can be called by; none if it only has timers or reminders
///     persistence = "persisted",      // or "volatile", "none"; "persisted" unless told
///     partitions = 10,                // over which actors are spread by their ids; 10 unless told
///     name = "counter",               // the name of the struct unless told; `T::NAME` if the struct is generic in `T`
/// )]
/// ```
///
/// A `State<T>` or `Paged<T>` field is stored under the name of the field (`#[actor(name = "…")]` gives another, so that a field
/// can be renamed), a `Context` is given, a `Provided<T>` is what the node was given, and every other field is
/// `Default::default()` and lives as long as the activation. What a field is follows from the name of its type;
/// `#[actor(state)]` and `#[actor(default)]` say so where that name is your own.
///
/// A field with `#[open(Resolver::open(&ctx, "users", settings()).await)]` is what the expression opens when the actor is
/// activated, before `Lifecycle::activate`. The expression is a `Result`; in it `ctx` is the `Context`, fields that are opened
/// before go by their names, and `.await` and `?` can be used. If it fails, so does the activation.
///
/// An actor that implements `Lifecycle` or `Remindable` is found to do so; the attribute does not mention it. One that is
/// generic is looked at once for all its types: implement them with the very bounds of the struct, because what is implemented
/// for some of the types only is not found.
#[proc_macro_derive(Actor, attributes(actor, open))]
pub fn derive_actor(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    actor::expand(&item).unwrap_or_else(|error| error.into_compile_error()).into()
}

/// Makes a type an event that actors publish: a serde type that can be cloned, with a name.
///
/// ```text
/// #[derive(Event, Clone, serde::Serialize, serde::Deserialize)]
/// #[event(name = "moved")]            // the name of the type unless told
/// ```
///
/// The name stands for the type: whoever publishes and whoever listens may each have a type of their own for it. It stays
/// the same when the type is renamed, so that what was missed is still counted.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    event::expand(&item).unwrap_or_else(|error| error.into_compile_error()).into()
}

/// Makes a struct a stateless worker: a pool of instances in this process, which grows and shrinks with the work.
///
/// ```text
/// #[worker(
///     implements(EventProcessor),     // the interfaces that it can be called by
///     min = 1,                        // how many instances are always there; 1 unless told
///     max = 8,                        // how many there are at most; 32 unless told
///     waiting_max = 1000,             // how many calls wait when all are at work, `Overloaded` beyond; 1024 unless told
///     idle_ms = 60_000,               // how long one above the minimum is kept without work; 60 s unless told
///     name = "processor",             // the name of the struct unless told
/// )]
/// ```
///
/// An instance has one call at a time, whether the method takes `&self` or `&mut self`. A `WorkerContext` field is given, one with
/// `#[open(..)]` is what the expression opens, as for an actor (the first call of an instance waits for it, and fails if it
/// does), and every other field is `Default::default()`. What is in the fields lives as long as the instance, and callers cannot
/// choose the instance: keep there what makes the next call cheaper, such as buffers and connections, and nothing else.
#[proc_macro_derive(Worker, attributes(worker, open))]
pub fn derive_worker(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    worker::expand(&item).unwrap_or_else(|error| error.into_compile_error()).into()
}
