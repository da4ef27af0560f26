use std::fmt;

/// What a message means. The number belongs to the one who handles it; its range says who may send it.
///
/// ```
/// use mainstay_wire::{Audience, Kind};
///
/// const APPEND: Kind = Kind::member(1);
/// const CALL: Kind = Kind::call(1);
/// assert_eq!((APPEND.audience(), CALL.audience()), (Audience::Members, Audience::Callers));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(u16);

/// Who may send a kind of message, as its number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Nodes of the cluster alone.
    Members,
    /// Nodes, clients and operators.
    Callers,
    /// Nodes and operators.
    Administrators,
    /// Also a process that has no certificate yet.
    Joining,
}

/// The numbers of each audience: 4,096 from here on.
const MEMBERS: u16 = 0x1000;
const CALLERS: u16 = 0x2000;
const ADMINISTRATORS: u16 = 0x3000;
const JOINING: u16 = 0x4000;
const RANGE: u16 = 0x0fff;

impl Kind {
    /// A kind that nodes send each other, such as log entries and votes. Numbers are taken modulo 4,096.
    pub const fn member(number: u16) -> Self {
        Self(MEMBERS | number & RANGE)
    }

    /// A kind that clients may send too: calls, and what belongs to them.
    pub const fn call(number: u16) -> Self {
        Self(CALLERS | number & RANGE)
    }

    /// A kind that operators may send, and clients may not.
    pub const fn administration(number: u16) -> Self {
        Self(ADMINISTRATORS | number & RANGE)
    }

    /// A kind by which a process without a certificate asks for one.
    pub const fn joining(number: u16) -> Self {
        Self(JOINING | number & RANGE)
    }

    /// Who may send it. A number of no range is for nodes alone.
    pub const fn audience(self) -> Audience {
        match self.0 & !RANGE {
            CALLERS => Audience::Callers,
            ADMINISTRATORS => Audience::Administrators,
            JOINING => Audience::Joining,
            _ => Audience::Members,
        }
    }

    /// The number as it travels.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The kind of a number that has arrived. Every number is one; the handler answers what it does not know with an error.
    pub const fn from_code(code: u16) -> Self {
        Self(code)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({:#06x})", self.0)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}
