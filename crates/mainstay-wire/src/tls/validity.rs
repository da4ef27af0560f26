use mainstay_core::time::WallTime;
use mainstay_core::{Error, Result};
use rustls_pki_types::CertificateDer;

/// From when and until when a certificate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Not before this moment.
    pub starts: WallTime,
    /// Not after this moment.
    pub expires: WallTime,
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

impl Validity {
    /// When it is to be replaced by a new one: at two thirds of its life, so that there is time to find out why that fails.
    pub fn renew_at(&self) -> WallTime {
        let life = self.expires.saturating_duration_since(self.starts);
        self.starts.saturating_add(life / 3 * 2)
    }

    /// The validity that is written in a certificate.
    ///
    /// # Errors
    /// `Invalid` if it cannot be read.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Result<Self> {
        read(certificate)
            .ok_or_else(|| Error::invalid("the certificate cannot be read: it has no dates where they should be"))
    }
}

/// The dates are the fifth field of the signed part, or the fourth where the version is left out.
fn read(certificate: &[u8]) -> Option<Validity> {
    let mut outer = Der(Der(certificate).element(SEQUENCE)?);
    let mut signed = Der(outer.element(SEQUENCE)?);
    let (tag, _) = signed.next()?;
    if tag == VERSION {
        signed.next()?;
    }
    // The serial number was read; the algorithm and the issuer are next.
    signed.next()?;
    signed.next()?;
    let mut dates = Der(signed.element(SEQUENCE)?);
    Some(Validity { starts: dates.date()?, expires: dates.date()? })
}

/// Elements one after the other, each with a tag and a length in front.
struct Der<'b>(&'b [u8]);

impl<'b> Der<'b> {
    fn next(&mut self) -> Option<(u8, &'b [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let length = match first {
            0..=0x7f => usize::from(first),
            0x81..=0x83 => {
                let (digits, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
                rest = behind;
                digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit))
            }
            // A certificate of more than 16 MiB is none.
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn element(&mut self, tag: u8) -> Option<&'b [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// `YYMMDDHHMMSSZ`, with the years from 1950 on, or `YYYYMMDDHHMMSSZ`.
    fn date(&mut self) -> Option<WallTime> {
        let (tag, text) = self.next()?;
        let (year, rest) = match tag {
            UTC_TIME => {
                let (year, rest) = text.split_at_checked(2)?;
                let year = number(year)?;
                (if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            GENERALIZED_TIME => {
                let (year, rest) = text.split_at_checked(4)?;
                (number(year)?, rest)
            }
            _ => return None,
        };
        let digits = rest.strip_suffix(b"Z").filter(|digits| digits.len() == 10)?;
        let mut parts = digits.chunks(2).map(number);
        let mut part = || parts.next().flatten();
        let (month, day, hour, minute, second) = (part()?, part()?, part()?, part()?, part()?);
        let month = time::Month::try_from(u8::try_from(month).ok()?).ok()?;
        let date = time::Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
        let clock =
            time::Time::from_hms(u8::try_from(hour).ok()?, u8::try_from(minute).ok()?, u8::try_from(second).ok()?)
                .ok()?;
        // What is before 1970 is as good as 1970.
        let seconds = u64::try_from(date.with_time(clock).assume_utc().unix_timestamp()).unwrap_or(0);
        Some(WallTime::from_millis(seconds * 1000))
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::super::{Authority, KeyPair};
    use super::*;
    use crate::party::Sender;
    use mainstay_core::time::wall;
    use mainstay_core::{ClusterId, NodeId};
    use proptest::prelude::*;
    use rustls_pki_types::pem::PemObject as _;
    use std::time::Duration;

    fn certificate(days: u32) -> CertificateDer<'static> {
        let life = Duration::from_secs(24 * 60 * 60) * days;
        let authority = Authority::create(ClusterId(7), life).unwrap();
        let issued = authority.issue(&Sender::Node(NodeId(3)), &KeyPair::generate().unwrap().public(), life).unwrap();
        CertificateDer::from_pem_slice(issued.chain_pem.as_bytes()).unwrap()
    }

    #[test]
    fn dates_are_read_before_and_after_the_year_2050() {
        for days in [90, 20_000] {
            let before = wall();
            let validity = Validity::of_certificate(&certificate(days)).unwrap();
            let life = Duration::from_secs(24 * 60 * 60) * days;
            let expected = before.saturating_add(life);
            assert!(
                validity.expires.saturating_add(Duration::from_secs(2)) > expected
                    && validity.expires <= wall().saturating_add(life)
            );
            assert!(validity.starts < before);
            let (whole, part) = (
                validity.expires.as_millis() - validity.starts.as_millis(),
                validity.renew_at().as_millis() - validity.starts.as_millis(),
            );
            assert!(part.abs_diff(whole / 3 * 2) <= 2);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(cut in 0usize..700, place in 0usize..700, byte: u8) {
            let mut bytes = certificate(90).to_vec();
            bytes.truncate(cut.max(1));
            let place = place % bytes.len();
            bytes[place] = byte;
            let _ = Validity::of_certificate(&bytes.into());
        }
    }
}
