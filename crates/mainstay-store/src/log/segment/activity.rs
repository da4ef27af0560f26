use mainstay_core::timings::Timings;

/// What a log has done since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogActivity {
    /// The bytes that became durable, headers and padding included.
    pub bytes: u64,
    /// How often something was written and synced.
    pub flushes: u64,
    /// How long each of them took.
    pub timings: Timings,
}
