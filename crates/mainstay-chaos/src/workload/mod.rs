//! What a node serves: one kind of object for each promise that is checked.
//!
//! | object | promise |
//! |---|---|
//! | [`register`] | an actor is linearizable |
//! | [`counter`] | a call happens once |
//! | [`journal`] | a resource outside is written by one owner at a time, told apart by fences |
//! | [`ticker`] | a reminder is neither lost nor settled twice, and goes on after a failover |
//! | [`bank`] | transactions of a service are atomic, and what was acknowledged is there |

pub mod bank;
pub mod counter;
pub mod journal;
pub mod register;
pub mod ticker;

use std::path::Path;

use mainstay::governance::owner::ResourceOwner;
use mainstay::node::NodeBuilder;

use self::bank::BankService;
use self::counter::CounterActor;
use self::journal::FencedFiles;
use self::register::RegisterActor;
use self::ticker::TickerActor;

/// Has a node serve all of it. The files of the journals are in a folder that all nodes share.
pub fn serve(node: NodeBuilder, journals: &Path) -> NodeBuilder {
    let node = node.actor::<RegisterActor>().actor::<CounterActor>().actor::<TickerActor>().service::<BankService>();
    ResourceOwner::serve(node, FencedFiles::in_folder(journals))
}
