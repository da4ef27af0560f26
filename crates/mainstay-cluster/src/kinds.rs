//! The kinds of messages that this room sends and serves, in one table: no number is used twice, and none of those that are
//! gone. What the runtime sends has kinds of its own, from [`FIRST_FREE`] on.

use mainstay_wire::Kind;

/// A request to a replica: of a node to a node.
pub const REPLICA: Kind = Kind::member(1);

/// A request to the controller: of a node.
pub const CONTROL: Kind = Kind::member(2);

/// A request to the controller: of an operator.
pub const OPERATE: Kind = Kind::administration(1);

/// A request to the controller: of a process that wants to join.
pub const JOIN: Kind = Kind::joining(1);

/// The first number of each audience that this room does not use and never will.
pub const FIRST_FREE: u16 = 64;
