use serde::{Serialize, Serializer};

/// What was measured once per round, under one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Measurement {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    samples: Vec<f64>,
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Ratio,
    /// Of one core.
    Percent,
    Micros,
    Seconds,
    Mebibytes,
    Bytes,
}

impl Unit {
    /// What stands behind a figure.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Unit::PerSecond => "/s",
            Unit::Ratio => "x",
            Unit::Percent => "%",
            Unit::Micros => "us",
            Unit::Seconds => "s",
            Unit::Mebibytes => "MiB",
            Unit::Bytes => "B",
        }
    }

    /// A figure with its unit, in one word.
    pub(crate) fn show(self, value: f64) -> String {
        let digits = match self {
            Unit::PerSecond | Unit::Bytes => 0,
            Unit::Mebibytes => 1,
            Unit::Ratio | Unit::Micros | Unit::Seconds => 2,
            Unit::Percent => 3,
        };
        format!("{value:.digits$}{}", self.suffix())
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.suffix())
    }
}

impl Measurement {
    pub(crate) fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, samples: Vec::new() }
    }

    /// The same figures under another name.
    pub(crate) fn named(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    pub(crate) fn push(&mut self, sample: f64) {
        self.samples.push(sample);
    }

    /// The sample in the middle, or the mean of the two that are; `NaN` without any.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            len if len % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        }
    }

    pub(crate) fn min(&self) -> f64 {
        self.samples.iter().copied().min_by(f64::total_cmp).unwrap_or(f64::NAN)
    }

    pub(crate) fn max(&self) -> f64 {
        self.samples.iter().copied().max_by(f64::total_cmp).unwrap_or(f64::NAN)
    }

    /// The spread: smallest and largest sample.
    pub(crate) fn spread(&self) -> String {
        format!("{}..{}", self.unit.show(self.min()), self.unit.show(self.max()))
    }

    /// Combines what was measured in the same round: noise that hit both cancels out in a ratio, as it would not in a
    /// ratio of medians.
    pub(crate) fn with(&self, other: &Self, name: &str, unit: Unit, combine: impl Fn(f64, f64) -> f64) -> Self {
        let samples = self.samples.iter().zip(&other.samples).map(|(a, b)| combine(*a, *b)).collect();
        Self { name: name.to_owned(), unit, samples }
    }

    /// How many times the other this is, round by round.
    pub(crate) fn over(&self, other: &Self, name: &str) -> Self {
        self.with(other, name, Unit::Ratio, |a, b| a / b)
    }

    /// How much more than the other this is, round by round.
    pub(crate) fn above(&self, other: &Self, name: &str) -> Self {
        self.with(other, name, self.unit, |a, b| a - b)
    }

    /// The larger of the two, round by round.
    pub(crate) fn larger(&self, other: &Self) -> Self {
        self.with(other, &self.name, self.unit, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(samples: &[f64]) -> Measurement {
        Measurement { samples: samples.to_vec(), ..Measurement::new("m", Unit::PerSecond) }
    }

    #[test]
    fn median_is_the_middle_whatever_the_order() {
        assert_eq!(measured(&[3.0, 100.0, 1.0]).median(), 3.0);
        assert_eq!(measured(&[4.0, 1.0, 3.0, 2.0]).median(), 2.5);
        assert!(measured(&[]).median().is_nan());
    }

    #[test]
    fn spread_is_from_the_smallest_to_the_largest() {
        assert_eq!(measured(&[20.0, 10.0, 15.0]).spread(), "10/s..20/s");
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // The third round was three times slower for both.
        let (ours, theirs) = (measured(&[200.0, 220.0, 60.0]), measured(&[100.0, 110.0, 30.0]));
        let ratio = ours.over(&theirs, "ours/theirs");
        assert_eq!((ratio.min(), ratio.median(), ratio.max()), (2.0, 2.0, 2.0));
        assert_eq!(ratio.unit, Unit::Ratio);
    }

    #[test]
    fn differences_and_larger_ones_are_taken_round_by_round() {
        let (a, b) = (measured(&[5.0, 1.0]), measured(&[2.0, 4.0]));
        assert_eq!(a.above(&b, "d").samples, [3.0, -3.0]);
        assert_eq!(a.larger(&b).samples, [5.0, 4.0]);
    }

    #[test]
    fn figures_are_one_word() {
        use Unit::*;
        for unit in [PerSecond, Ratio, Percent, Micros, Seconds, Mebibytes, Bytes] {
            assert!(!unit.show(1234.5678).contains(' '));
        }
        assert_eq!(Unit::Percent.show(0.1234), "0.123%");
    }
}
