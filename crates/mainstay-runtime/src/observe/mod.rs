//! What is counted, timed, reported and traced of actors, and what becomes of it.
//!
//! A [`Ledger`](ledger::Ledger) has the counts of one actor type on this node. Turns add to it as they go, each thread at a
//! place of its own, and whoever publishes it hands the differences to the recorder of the process: a call does not know
//! a recorder. How long things take is measured only while there is one, and of so many calls per second that measuring
//! them costs next to nothing; see [`MEASURED_MAX`](method::MEASURED_MAX).
//!
//! | file | holds |
//! |---|---|
//! | `ledger`, `method`, `stripes` | the counts of an actor type, and of each of its methods |
//! | `publish` | the way from there to the recorder |
//! | `turn`, `slow` | a turn under way: its span, its time, and the warning if it takes long |
//! | `request`, `waiting` | a call until it is answered, and while it waits in line |
//! | `storage` | activations and commits |
//! | `trace` | the spans of calls |
//! | `throttle` | warnings that come in floods |

pub(crate) mod ledger;
pub(crate) mod method;
pub(crate) mod publish;
pub(crate) mod request;
mod slow;
pub(crate) mod storage;
mod stripes;
mod throttle;
pub(crate) mod trace;
pub(crate) mod turn;
pub(crate) mod waiting;
