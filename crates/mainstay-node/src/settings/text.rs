//! Durations and sizes as people write them.

use mainstay_core::time::Duration;

/// The units of a size, the largest first.
const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];

/// A duration such as `60s`, `5min` or `1h30m`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text.trim()).ok()
}

/// A duration that [`duration`] reads.
pub(crate) fn duration_text(duration: Duration) -> String {
    humantime::format_duration(duration).to_string().replace(' ', "")
}

/// A size such as `64MiB`, `64 MiB`, `10MB`, `512B` or `512`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = unit.trim_start();
    if unit.is_empty() || unit.eq_ignore_ascii_case("B") {
        return Some(number);
    }
    let (_, factor) = UNITS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(factor)
}

/// A size that [`bytes`] reads, in the largest unit that leaves no rest.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let binary = UNITS.into_iter().take(4).find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    match binary {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_written_and_written_as_read() {
        for (text, seconds) in
            [("60s", 60), ("5min", 300), ("5m", 300), ("1h30m", 5400), ("1h 30min", 5400), ("2days", 172_800)]
        {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        for wrong in ["", "60", "-1s", "5 parsecs", "1.5.2s", "999999999999999999999s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
        for millis in [1, 999, 60_000, 5_400_001, 86_400_000, 315_360_000_000] {
            let duration_ = Duration::from_millis(millis);
            assert_eq!(duration(&duration_text(duration_)), Some(duration_), "{}", duration_text(duration_));
        }
    }

    #[test]
    fn sizes_are_read_as_written_and_written_as_read() {
        for (text, expected) in
            [("64MiB", 64 << 20), ("64 mib", 64 << 20), ("10MB", 10_000_000), ("512B", 512), ("7", 7)]
        {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for wrong in ["", "MiB", "1.5MiB", "-1", "64MB/s", "99999999TiB", "99999999999999999999"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        for size in [0, 1, 1000, 1024, 1536, 64 << 20, 3 << 30, u64::MAX] {
            assert_eq!(bytes(&bytes_text(size)), Some(size), "{}", bytes_text(size));
        }
    }
}
