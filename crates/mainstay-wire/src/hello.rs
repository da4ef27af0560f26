//! The first bytes of a connection, each way: who is there, and what it speaks. `docs/internals/wire.md` has the bytes.

use bytes::{BufMut as _, BytesMut};
use mainstay_core::time::WallTime;
use mainstay_core::{ClusterId, Error, ErrorKind, NodeId, Result};

use crate::class::{Class, Lane};
use crate::fields::Fields;
use crate::party::{Sender, SessionId};
use crate::window::Window;

/// The bytes before the body: magic, version, length and checksum. No version will change them.
pub const PREFIX_BYTES: usize = 12;

/// The longest body: several times what is needed today, and nothing to anyone who has to keep it.
pub const BODY_BYTES_MAX: usize = 1024;

const MAGIC: &[u8; 4] = b"MSTY";
const MAGIC_REFUSED: &[u8; 4] = b"MSNO";

/// The version of the body's layout. Later ones add fields at its end, which this one skips; one that cannot be read so has
/// another magic.
const VERSION: u16 = 1;

const ROLE_NODE: u8 = 0;
const ROLE_CLIENT: u8 = 1;
const ROLE_OPERATOR: u8 = 2;
const ROLE_JOINING: u8 = 3;

/// What a process says of itself when it connects, and what it answers when it is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The oldest version of frames that it speaks.
    pub protocol_min: u16,
    /// The newest version of frames that it speaks.
    pub protocol_max: u16,
    /// Which connection this is.
    pub lane: Lane,
    /// Who it is; with TLS, exactly what its certificate says.
    pub sender: Sender,
    /// Its cluster, if it knows one.
    pub cluster: Option<ClusterId>,
    /// Its number for this run, if it is no node.
    pub session: SessionId,
    /// Which start of its folder this is, of a node.
    pub boot: u64,
    /// Grows with every hello of the process. Of two hellos, the one with the lower number was written first.
    pub sequence: u64,
    /// Its features, as bits.
    pub features: u64,
    /// Its wall clock.
    pub wall: WallTime,
    /// How much of each class it takes in at a time. Of a class that is not mentioned, nothing may be sent.
    pub windows: [Window; Class::COUNT],
}

/// Why a connection was refused, as a number for programs. The text beside it is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalCode {
    /// No version of frames is spoken by both.
    Version,
    /// It is of another cluster.
    Cluster,
    /// It is not who it says it is.
    Identity,
    /// The node was removed from the cluster.
    Removed,
    /// The wall clocks are too far apart.
    Clock,
    /// There is a connection already.
    Duplicate,
    /// Too many are connected.
    Full,
    /// The policy does not let it connect.
    Policy,
    /// It stops.
    Stopping,
    /// A reason of a later version.
    Other(u8),
}

/// The answer to a hello that is not followed by anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why, for programs.
    pub code: RefusalCode,
    /// Why, for people.
    pub text: String,
}

/// What a hello is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelloAnswer {
    /// Who was reached.
    Welcome(Box<Hello>),
    /// Why not.
    Refused(Refusal),
}

impl Hello {
    /// The bytes of it.
    pub fn encode(&self) -> BytesMut {
        let mut body = BytesMut::with_capacity(256);
        body.put_u16_le(self.protocol_min);
        body.put_u16_le(self.protocol_max);
        body.put_u8(self.lane.code());
        let (role, node, name) = match &self.sender {
            Sender::Node(NodeId(id)) => (ROLE_NODE, *id, ""),
            Sender::Client(name) => (ROLE_CLIENT, 0, &**name),
            Sender::Operator(name) => (ROLE_OPERATOR, 0, &**name),
            Sender::Joining => (ROLE_JOINING, 0, ""),
        };
        body.put_u8(role);
        body.put_u128_le(self.cluster.map_or(0, |cluster| cluster.0));
        body.put_u64_le(node);
        body.put_u128_le(self.session.0);
        body.put_u64_le(self.boot);
        body.put_u64_le(self.sequence);
        body.put_u64_le(self.features);
        body.put_u64_le(self.wall.as_millis());
        // A name has 64 bytes at most.
        body.put_u8(name.len() as u8);
        body.put_slice(name.as_bytes());
        body.put_u8(Class::COUNT as u8);
        for window in &self.windows {
            body.put_u32_le(window.messages);
            body.put_u64_le(window.bytes);
        }
        framed(MAGIC, &body)
    }

    /// Reads a body that [`body_bytes`] has found the length of.
    ///
    /// # Errors
    /// `Corrupt` if it is none, and `Invalid` if it says what no process can say.
    pub fn decode(prefix: &[u8; PREFIX_BYTES], body: &[u8]) -> Result<Self> {
        check_sum(prefix, body)?;
        if !prefix.starts_with(MAGIC) {
            return Err(Error::corrupt("a hello does not begin as one"));
        }
        Self::decode_body(body)
    }

    fn decode_body(body: &[u8]) -> Result<Self> {
        let mut fields = Fields::new("a hello", body);
        let (protocol_min, protocol_max) = (fields.u16()?, fields.u16()?);
        let lane = fields.u8()?;
        let role = fields.u8()?;
        let cluster = Some(fields.u128()?).filter(|cluster| *cluster != 0).map(ClusterId);
        let node = NodeId(fields.u64()?);
        let session = SessionId(fields.u128()?);
        let (boot, sequence, features) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let wall = WallTime::from_millis(fields.u64()?);
        let name = fields.short_text()?;
        let mut windows = [Window::default(); Class::COUNT];
        for class in 0..usize::from(fields.u8()?) {
            let window = Window { messages: fields.u32()?, bytes: fields.u64()? };
            // A class of a later version is none of ours.
            if let Some(place) = windows.get_mut(class) {
                *place = window;
            }
        }
        let sender = match role {
            ROLE_NODE => Sender::Node(node),
            ROLE_CLIENT => Sender::client(name)?,
            ROLE_OPERATOR => Sender::operator(name)?,
            ROLE_JOINING => Sender::Joining,
            other => {
                return Err(Error::invalid(format!("a hello has the role {other}, which this build does not know")));
            }
        };
        let lane = Lane::from_code(lane);
        let lane = lane.ok_or_else(|| Error::invalid("a hello is for a connection that this build does not know"))?;
        if protocol_min > protocol_max {
            return Err(Error::invalid("a hello has a range of versions with nothing in it"));
        }
        Ok(Self { protocol_min, protocol_max, lane, sender, cluster, session, boot, sequence, features, wall, windows })
    }
}

impl Refusal {
    /// A refusal with its reason.
    pub fn new(code: RefusalCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The bytes of it. A text that is too long is cut.
    pub fn encode(&self) -> BytesMut {
        let mut body = BytesMut::with_capacity(self.text.len() + 1);
        body.put_u8(self.code.code());
        let end = self.text.floor_char_boundary(BODY_BYTES_MAX - 1);
        body.put_slice(&self.text.as_bytes()[..end]);
        framed(MAGIC_REFUSED, &body)
    }
}

impl HelloAnswer {
    /// Reads a body that [`body_bytes`] has found the length of.
    ///
    /// # Errors
    /// As [`Hello::decode`].
    pub fn decode(prefix: &[u8; PREFIX_BYTES], body: &[u8]) -> Result<Self> {
        check_sum(prefix, body)?;
        if prefix.starts_with(MAGIC) {
            return Hello::decode_body(body).map(|hello| Self::Welcome(Box::new(hello)));
        }
        let mut fields = Fields::new("a refusal", body);
        let code = RefusalCode::from_code(fields.u8()?);
        let text = String::from_utf8_lossy(&body[1..]);
        // It is shown to people, and it comes from someone who may be no friend.
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Ok(Self::Refused(Refusal { code, text }))
    }
}

/// The length of the body, which the prefix tells.
///
/// # Errors
/// `Corrupt` if it is no prefix, or one with a body that is too long; `UnknownVersion` if it is of another version.
pub fn body_bytes(prefix: &[u8; PREFIX_BYTES]) -> Result<usize> {
    let mut fields = Fields::new("a hello", prefix);
    let magic = fields.take(MAGIC.len())?;
    if magic != MAGIC && magic != MAGIC_REFUSED {
        let looks_like_tls = magic.starts_with(&[0x16, 0x03]) || magic.starts_with(&[0x15, 0x03]);
        let hint = if looks_like_tls { ": it speaks TLS, which is off here" } else { "" };
        return Err(Error::corrupt(format!("the peer does not speak this protocol{hint}")));
    }
    let version = fields.u16()?;
    if version == 0 {
        return Err(Error::new(ErrorKind::UnknownVersion, "a hello has the version 0, which there is not"));
    }
    let length = usize::from(fields.u16()?);
    if length > BODY_BYTES_MAX {
        return Err(Error::corrupt(format!("a hello of {length} bytes is longer than {BODY_BYTES_MAX}")));
    }
    Ok(length)
}

fn framed(magic: &[u8; 4], body: &[u8]) -> BytesMut {
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + body.len());
    out.put_slice(magic);
    out.put_u16_le(VERSION);
    // All bodies that are written here have less than 1,024 bytes.
    out.put_u16_le(body.len() as u16);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&out), body);
    out.put_u32_le(sum);
    out.put_slice(body);
    out
}

fn check_sum(prefix: &[u8; PREFIX_BYTES], body: &[u8]) -> Result<()> {
    let mut fields = Fields::new("a hello", prefix);
    let (head, expected) = (fields.take(8)?, fields.u32()?);
    if crc32c::crc32c_append(crc32c::crc32c(head), body) != expected {
        return Err(Error::corrupt("a hello is damaged: its checksum does not match"));
    }
    Ok(())
}

impl RefusalCode {
    fn code(self) -> u8 {
        match self {
            RefusalCode::Version => 1,
            RefusalCode::Cluster => 2,
            RefusalCode::Identity => 3,
            RefusalCode::Removed => 4,
            RefusalCode::Clock => 5,
            RefusalCode::Duplicate => 6,
            RefusalCode::Full => 7,
            RefusalCode::Policy => 8,
            RefusalCode::Stopping => 9,
            RefusalCode::Other(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            1 => RefusalCode::Version,
            2 => RefusalCode::Cluster,
            3 => RefusalCode::Identity,
            4 => RefusalCode::Removed,
            5 => RefusalCode::Clock,
            6 => RefusalCode::Duplicate,
            7 => RefusalCode::Full,
            8 => RefusalCode::Policy,
            9 => RefusalCode::Stopping,
            other => RefusalCode::Other(other),
        }
    }
}

#[cfg(test)]
mod tests;
