//! What one would write without governance.

pub(super) mod by_hand;
pub(super) mod deadpool;
