use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainstay_core::time::WallTime;
use mainstay_core::{ClusterId, Error, ErrorKind, OrError as _, Result};
use rand::TryRng as _;
use rand::rngs::SysRng;

use super::authority::AuthorityHash;
use crate::address::Address;
use crate::fields::Fields;
use crate::formats::JOIN_TOKEN;

/// What every token begins with; the version follows.
const PREFIX: &str = "mainstay-join-";

/// The most addresses in a token: three are enough to find one that is up.
const SEEDS_MAX: usize = 16;

/// The longest text that is looked at: more than a token with the longest addresses has.
const TEXT_BYTES_MAX: usize = 8192;

/// What a new node needs to join a cluster: where to ask, by what to recognise whom it asks, and a secret that is good once.
///
/// Its text is for a command line: one word without characters that a shell takes apart.
///
/// ```
/// use mainstay_core::ClusterId;
/// use mainstay_core::time::WallTime;
/// use mainstay_wire::tls::{AuthorityHash, JoinToken, Secret};
///
/// let token = JoinToken::new(
///     vec!["10.0.0.5:7400".parse()?],
///     ClusterId(7),
///     AuthorityHash([1; 32]),
///     Secret::generate()?,
///     WallTime::from_millis(1_770_120_000_000),
/// )?;
/// assert_eq!(token.to_text().parse::<JoinToken>()?, token);
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinToken {
    seeds: Vec<Address>,
    cluster: ClusterId,
    authority: AuthorityHash,
    secret: Secret,
    expires: WallTime,
}

/// 32 bytes that nobody guesses. They are not shown, and are compared in a time that says nothing of them.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A new one, from the randomness of the system.
    ///
    /// # Errors
    /// `Fatal` if the system has none to give.
    pub fn generate() -> Result<Self> {
        let mut bytes = [0; 32];
        // Not by the seam: what keeps a secret must not be foreseen from a seed.
        SysRng.try_fill_bytes(&mut bytes).or_error(ErrorKind::Fatal, "the system has no randomness to give")?;
        Ok(Self(bytes))
    }

    /// The one that was kept or sent.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes, to be sent or kept.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |difference, (one, two)| difference | (one ^ two));
        std::hint::black_box(difference) == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl JoinToken {
    /// A token for these addresses, until it expires.
    ///
    /// # Errors
    /// `Invalid` without an address, or with more than 16.
    pub fn new(
        seeds: Vec<Address>,
        cluster: ClusterId,
        authority: AuthorityHash,
        secret: Secret,
        expires: WallTime,
    ) -> Result<Self> {
        if seeds.is_empty() || seeds.len() > SEEDS_MAX {
            return Err(Error::invalid(format!("a join token has 1 to {SEEDS_MAX} addresses, not {}", seeds.len())));
        }
        Ok(Self { seeds, cluster, authority, secret, expires })
    }

    /// Where to ask, in this order.
    pub fn seeds(&self) -> &[Address] {
        &self.seeds
    }

    /// The cluster to join.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// By what to recognise its nodes.
    pub fn authority(&self) -> AuthorityHash {
        self.authority
    }

    /// What is good once.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Until when.
    pub fn expires(&self) -> WallTime {
        self.expires
    }

    /// Has it expired?
    ///
    /// # Errors
    /// `Invalid` if so, with the moment.
    pub fn check_expiry(&self, now: WallTime) -> Result<()> {
        if now < self.expires {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the join token has expired at {}: make a new one with `mainstay node token`",
            self.expires
        )))
    }

    /// The text of it. It has the secret in it, which is why this is not `Display`.
    pub fn to_text(&self) -> String {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&self.cluster.0.to_le_bytes());
        bytes.extend_from_slice(&self.authority.0);
        bytes.extend_from_slice(&self.secret.0);
        bytes.extend_from_slice(&self.expires.as_millis().to_le_bytes());
        bytes.push(self.seeds.len() as u8);
        for seed in &self.seeds {
            let text = seed.to_string();
            // An address has 259 bytes at most, and two more in brackets.
            bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        format!("{PREFIX}{}-{}", JOIN_TOKEN.written(), URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for JoinToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.len() > TEXT_BYTES_MAX {
            return Err(Error::invalid("this is no join token: it is too long"));
        }
        let rest = text
            .strip_prefix(PREFIX)
            .or_error_with(ErrorKind::Invalid, || format!("this is no join token: one begins with {PREFIX}"))?;
        let (version, body) = rest
            .split_once('-')
            .or_error(ErrorKind::Invalid, "the join token ends within its version: copy all of it")?;
        let version: u64 =
            version.parse().or_error(ErrorKind::Invalid, "the join token has no version: copy all of it")?;
        JOIN_TOKEN.check_wide(version, "the join token")?;
        let bytes = URL_SAFE_NO_PAD.decode(body);
        let bytes = bytes.or_error(
            ErrorKind::Invalid,
            "the join token has characters that none has, or is cut off: copy all of it",
        )?;
        let (body, sum) =
            bytes.split_last_chunk().or_error(ErrorKind::Invalid, "the join token is cut off: copy all of it")?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return Err(Error::invalid("the join token is damaged or cut off: copy all of it"));
        }
        let mut fields = Fields::new("the join token", body);
        let cluster = ClusterId(fields.u128()?);
        let mut array = || {
            fields
                .take(32)
                .and_then(|bytes| bytes.try_into().or_error(ErrorKind::Corrupt, "the join token ends too early"))
        };
        let (authority, secret) = (AuthorityHash(array()?), Secret(array()?));
        let expires = WallTime::from_millis(fields.u64()?);
        let count = usize::from(fields.u8()?);
        let mut seeds = Vec::new();
        for _ in 0..count.min(SEEDS_MAX + 1) {
            let length = usize::from(fields.u16()?);
            let text = std::str::from_utf8(fields.take(length)?)
                .or_error(ErrorKind::Corrupt, "an address in the join token is no text")?;
            seeds.push(text.parse()?);
        }
        // What a later writer has added behind them is skipped.
        Self::new(seeds, cluster, authority, secret, expires)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token() -> JoinToken {
        let seeds = ["10.0.0.5:7400", "[::1]:7400", "node.example:1"].map(|seed| seed.parse().unwrap());
        let expires = WallTime::from_millis(1_770_120_000_000);
        JoinToken::new(seeds.to_vec(), ClusterId(7), AuthorityHash([1; 32]), Secret::from_bytes([2; 32]), expires)
            .unwrap()
    }

    #[test]
    fn a_token_is_read_as_it_was_written() {
        assert_eq!(token().to_text().parse::<JoinToken>().unwrap(), token());
        assert_eq!(format!(" {}\n", token().to_text()).parse::<JoinToken>().unwrap(), token());
        assert!(!format!("{:?}", token()).contains("2, 2"), "the secret is not shown");
        assert!(
            JoinToken::new(vec![], ClusterId(7), AuthorityHash([1; 32]), Secret::generate().unwrap(), WallTime::MAX)
                .is_err()
        );
        assert_ne!(Secret::generate().unwrap(), Secret::generate().unwrap());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let text = token().to_text();
        for (text, why) in [
            (String::new(), "begins with"),
            ("mainstay-join-".to_owned(), "ends within"),
            (text.replace("join-1-", "join-2-"), "version 2"),
            (text.replace("join-1-", "join-x-"), "no version"),
            (format!("{}!", &text[..text.len() - 1]), "characters"),
            (text[..30].to_owned(), "cut off"),
            ("a".repeat(9000), "too long"),
        ] {
            let error = text.parse::<JoinToken>().unwrap_err();
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
        let now = token().expires();
        assert!(token().check_expiry(now.saturating_sub(std::time::Duration::from_millis(1))).is_ok());
        assert!(token().check_expiry(now).unwrap_err().to_string().contains("2026-02-03T12:00"));
    }

    #[test]
    fn every_changed_character_is_noticed() {
        let text = token().to_text();
        for (place, was) in text.char_indices() {
            let other = if was == 'A' { 'B' } else { 'A' };
            let changed = format!("{}{other}{}", &text[..place], &text[place + 1..]);
            assert!(changed.parse::<JoinToken>().is_err(), "{place}");
            assert!(text[..place].parse::<JoinToken>().is_err(), "{place}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = text.parse::<JoinToken>();
            let _ = format!("{PREFIX}1-{text}").parse::<JoinToken>();
            let mut bytes = bytes;
            bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
            let _ = format!("{PREFIX}1-{}", URL_SAFE_NO_PAD.encode(bytes)).parse::<JoinToken>();
        }
    }
}
