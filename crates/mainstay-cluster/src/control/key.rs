use mainstay_core::{Error, Level, NodeId, RESTORE, Result, SetId};

/// The longest name of a service or a gate.
pub(crate) const NAME_BYTES_MAX: usize = 256;

const CLUSTER: u8 = b'c';
const NODE: u8 = b'n';
const SET: u8 = b'r';
const SERVICE: u8 = b's';
const OPERATION: u8 = b'o';
const GATE: u8 = b'g';
const TOKEN: u8 = b't';

/// What a record is about: its key in the control partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RecordKey {
    Cluster,
    Node(NodeId),
    Set(SetId),
    Service(String),
    Operation(u64),
    Gate(String),
    Token([u8; 32]),
    /// Of a later program: it is left as it is.
    Unknown,
}

impl RecordKey {
    /// The bytes of the key; none for one of a later program, which is never written here.
    pub(super) fn encode(&self) -> Vec<u8> {
        let tagged = |tag: u8, rest: &[u8]| [&[tag], rest].concat();
        match self {
            Self::Cluster => vec![CLUSTER],
            Self::Node(node) => tagged(NODE, &node.0.to_be_bytes()),
            Self::Set(set) => {
                let [high, low] = set.number.to_be_bytes();
                tagged(SET, &[level_code(set.level), high, low])
            }
            Self::Service(name) => tagged(SERVICE, name.as_bytes()),
            Self::Operation(id) => tagged(OPERATION, &id.to_be_bytes()),
            Self::Gate(name) => tagged(GATE, name.as_bytes()),
            Self::Token(hash) => tagged(TOKEN, hash),
            Self::Unknown => Vec::new(),
        }
    }

    /// # Errors
    /// `Corrupt` for a key that starts like one of ours and is none.
    pub(super) fn decode(key: &[u8]) -> Result<Self> {
        let damaged = || Error::corrupt(format!("the control set has a key {key:02x?}, which is none: {RESTORE}"));
        let (tag, rest) = key.split_first().ok_or_else(damaged)?;
        let number = || <[u8; 8]>::try_from(rest).map(u64::from_be_bytes).map_err(|_| damaged());
        let name = || std::str::from_utf8(rest).map(str::to_owned).map_err(|_| damaged());
        match *tag {
            CLUSTER if rest.is_empty() => Ok(Self::Cluster),
            CLUSTER => Err(damaged()),
            NODE => Ok(Self::Node(NodeId(number()?))),
            SET => {
                let [level, high, low] = <[u8; 3]>::try_from(rest).map_err(|_| damaged())?;
                let level = level_of(level).ok_or_else(damaged)?;
                Ok(Self::Set(SetId { level, number: u16::from_be_bytes([high, low]) }))
            }
            SERVICE => Ok(Self::Service(name()?)),
            OPERATION => Ok(Self::Operation(number()?)),
            GATE => Ok(Self::Gate(name()?)),
            TOKEN => Ok(Self::Token(rest.try_into().map_err(|_| damaged())?)),
            _ => Ok(Self::Unknown),
        }
    }
}

/// The number of a level in keys and messages.
pub(crate) fn level_code(level: Level) -> u8 {
    match level {
        Level::Persisted => 0,
        Level::Volatile => 1,
        Level::None => 2,
    }
}

/// The level of a number.
pub(crate) fn level_of(code: u8) -> Option<Level> {
    [Level::Persisted, Level::Volatile, Level::None].get(usize::from(code)).copied()
}
