//! What a node keeps: the [node log](log), which all its persisted replicas share, and the [state stores](state),
//! which hold what the log has been applied to. Both stand on the [disk] seam, so that both run on a
//! simulated disk that loses what was not synced.
//!
//! Nothing here knows about consensus, partitions or collections: groups, indexes, keys and values are numbers and
//! bytes.

pub mod disk;
pub mod formats;
pub mod log;
pub mod state;
