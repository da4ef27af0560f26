use mainstay_core::timings::Timings;

/// What a replica set has done on this node since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetActivity {
    /// Commits that were acknowledged.
    pub commits: u64,
    /// Log entries that they were merged into.
    pub entries: u64,
    /// Bytes that were handed over to be committed.
    pub bytes: u64,
    /// Commits that were refused as `Overloaded`.
    pub throttled: u64,
    /// Commits that wait now.
    pub waiting: u64,
    /// Bytes that are applied and in no checkpoint now.
    pub unsaved_bytes: u64,
    /// How long entries took from the proposal to their outcome.
    pub timings: Timings,
}
