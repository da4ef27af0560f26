use std::fmt;

use mainstay_core::SetId;

/// What keeps a node from serving and writing to all of its sets.
///
/// Its text is one line per problem, with the remedy; it is empty for a node that is well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Why the node log has stopped, if it has. Nothing persisted is written any more until the node is restarted.
    pub log_failure: Option<String>,
    /// The sets whose replica on this node has stopped by itself, and why. They are not served here until the node is
    /// restarted.
    pub stopped: Vec<(SetId, String)>,
    /// What commits are refused with while the disk has little room left. It passes when there is room again.
    pub low_space: Option<String>,
    /// The bytes that the disk of the node log had left at the last look, if they are known.
    pub free_bytes: Option<u64>,
}

impl Health {
    /// True if something has stopped, which only a restart brings back.
    pub fn has_stopped(&self) -> bool {
        self.log_failure.is_some() || !self.stopped.is_empty()
    }

    /// True if nothing is wrong.
    pub fn is_well(&self) -> bool {
        !self.has_stopped() && self.low_space.is_none()
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cause) = &self.log_failure {
            writeln!(f, "the node log has stopped: {cause}; mend that and restart the node")?;
        }
        for (set, cause) in &self.stopped {
            writeln!(f, "set {set} has stopped: {cause}; mend that and restart the node")?;
        }
        self.low_space.iter().try_for_each(|text| writeln!(f, "commits are refused: {text}"))
    }
}
