//! The kinds of messages by which processes call each other's objects. Their numbers begin where those of the cluster end.

use mainstay_cluster::kinds::FIRST_FREE;
use mainstay_wire::Kind;

/// A call of an object.
pub(crate) const CALL: Kind = Kind::call(FIRST_FREE);
