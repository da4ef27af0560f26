/// What is wrong with a log, if anything is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogHealth {
    /// Why it has stopped: nothing is written any more until it is opened anew.
    pub failure: Option<String>,
    /// What commits are refused with while the disk has little room left.
    pub low_space: Option<String>,
    /// The bytes that the disk had left at the last look, if they are known and watched.
    pub free_bytes: Option<u64>,
}
