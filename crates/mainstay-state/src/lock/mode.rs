use std::fmt;

/// How a transaction holds a lock, or wants to.
///
/// A stronger mode covers the weaker ones: who holds [`Update`](LockMode::Update) may read, who holds
/// [`Exclusive`](LockMode::Exclusive) may do everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// To read. Any number of transactions hold it together.
    Shared,
    /// To read what will be written later. It joins those who read already and keeps new readers out, so that two
    /// transactions that both read and then write queue up instead of blocking each other for good.
    Update,
    /// To write. Nobody else holds anything.
    Exclusive,
}

impl LockMode {
    /// Whether `self` may be granted to one transaction while another holds `granted`.
    ///
    /// The table is not symmetric: an update joins readers, a reader does not join an update.
    pub(crate) fn is_compatible_with(self, granted: LockMode) -> bool {
        #[cfg(feature = "planted-bugs")]
        if (self, granted) == (LockMode::Shared, LockMode::Exclusive)
            && crate::planted::is_planted(crate::planted::PlantedBug::SharedJoinsExclusive)
        {
            return true;
        }
        matches!((self, granted), (LockMode::Shared | LockMode::Update, LockMode::Shared))
    }

    /// Whether who holds `self` needs nothing more to have `wanted`.
    pub(crate) fn covers(self, wanted: LockMode) -> bool {
        self >= wanted
    }
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockMode::Shared => "shared",
            LockMode::Update => "update",
            LockMode::Exclusive => "exclusive",
        })
    }
}
