/// How large and how deep an encoded value may be.
///
/// Both are checked when a value is written, so that nothing is stored which could not be read back, and when it is
/// read, before anything is allocated that the bytes only promise.
///
/// ```
/// use mainstay_core::contract::Limits;
///
/// let small = Limits { bytes_max: 16, ..Limits::DEFAULT };
/// let error = small.encode(&"a text of more than sixteen bytes").unwrap_err();
/// assert_eq!(error.kind(), mainstay_core::ErrorKind::TooLarge);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one encoded value. Counts above [`Limits::BYTES_CEILING`] mean the ceiling.
    pub bytes_max: usize,
    /// The most lists, maps, structs and enum payloads inside each other. Counts above [`Limits::DEPTH_CEILING`] mean
    /// the ceiling.
    pub depth_max: u16,
}

impl Limits {
    /// What the functions of this module use: 8 MiB and 64 levels.
    pub const DEFAULT: Limits = Limits { bytes_max: 8 << 20, depth_max: 64 };

    /// No setting allows more bytes than this: MessagePack counts in 32 bits, and a value of a gibibyte is no value.
    pub const BYTES_CEILING: usize = 1 << 30;

    /// No setting allows more levels than this: reading a level takes a few kilobytes of stack in a debug build, and
    /// a thread has two megabytes.
    pub const DEPTH_CEILING: u16 = 128;

    pub(super) fn bytes(&self) -> usize {
        self.bytes_max.min(Self::BYTES_CEILING)
    }

    pub(super) fn depth(&self) -> u16 {
        self.depth_max.min(Self::DEPTH_CEILING)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
