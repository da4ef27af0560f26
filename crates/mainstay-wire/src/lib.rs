//! The wire: connections between nodes, and from clients to nodes.
//!
//! An [`Endpoint`] is the place of a process on the network. It sends messages to a [`Peer`] and hands what comes in to a [`Serve`].
//! Between two nodes it has three connections, the [`Lane`]s, so that heartbeats never wait behind data and data never behind
//! snapshots; on each, messages of different [`Class`]es are sent in fragments, by weight.
//!
//! The path of a request: [`Endpoint::call`] finds the `Link` to the peer and puts the message into the `Channel` of its connection,
//! or into one that is being dialed, if the receiver has a place for it. The `Driver` of the connection takes frames out of
//! the `Outbox` and writes them; the driver at the other end puts them together (`Assembly`), asks the [`Policy`], and hands an
//! [`Incoming`] to [`Serve::receive`]. Its answer takes the same way back.
//!
//! The seam to the network is [`Dial`] and [`Listen`], of byte streams: TCP in production, [`sim`] in simulation. Who is at the
//! other end is known from its certificate ([`tls`]). Everything that a peer can send is bounded; the bytes and
//! the bounds are in `docs/internals/wire.md`.
//!
//! This room knows nothing of replica sets, actors or disks; a client uses it without them.

mod class;
mod kind;
mod party;

mod endpoint;
mod incoming;
mod options;
mod policy;
mod serve;

mod address;
pub mod sim;
mod stream;
mod tcp;

pub mod tls;

mod link;

mod cancellation;
mod channel;
mod outbox;
mod travel;
mod window;

mod assembly;
mod driver;
mod read_buffer;
mod write_buffer;

mod handshake;

mod fields;
mod formats;
pub mod frame;
pub mod hello;

mod bucket;
mod throttle;

pub use address::Address;
pub use class::{Class, Lane};
pub use endpoint::{ConnectionReport, Endpoint};
pub use incoming::Incoming;
pub use kind::{Audience, Kind};
pub use options::{EndpointOptions, LaneTiming, Timing};
pub use party::{NAME_BYTES_MAX, Peer, Sender, SessionId};
pub use policy::{Introduction, Policy, RolePolicy};
pub use serve::Serve;
pub use stream::{Connecting, Connection, Dial, Listen, Stream};
pub use tcp::{TcpDial, TcpListen};
pub use window::Window;
