use std::fmt;

use serde::Serialize;

use crate::measurement::Measurement;

/// A figure that is to be reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Goal {
    pub(crate) name: String,
    /// The median is what counts; the spread is for people.
    pub(crate) value: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) unit: crate::measurement::Unit,
    #[serde(serialize_with = "serialize_shown")]
    pub(crate) target: Target,
    pub(crate) met: bool,
}

/// Where a figure must lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    Under(f64),
}

impl Target {
    /// A figure that could not be determined (`NaN`) is never there.
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Target::AtLeast(bound) => value >= bound,
            Target::AtMost(bound) => value <= bound,
            Target::Under(bound) => value < bound,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::AtLeast(bound) => write!(f, ">={bound}"),
            Target::AtMost(bound) => write!(f, "<={bound}"),
            Target::Under(bound) => write!(f, "<{bound}"),
        }
    }
}

fn serialize_shown<S: serde::Serializer>(target: &Target, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(target)
}

impl Goal {
    /// Holds the median of a measurement against a target.
    pub(crate) fn new(measurement: &Measurement, target: Target) -> Self {
        let value = measurement.median();
        Self {
            name: measurement.name.clone(),
            value,
            min: measurement.min(),
            max: measurement.max(),
            unit: measurement.unit,
            target,
            met: target.is_met_by(value),
        }
    }

    /// The spread of the figure over the rounds.
    pub(crate) fn spread(&self) -> String {
        format!("{}..{}", self.unit.show(self.min), self.unit.show(self.max))
    }
}

/// The line for programs: `goal NAME VALUE TARGET met|missed`.
impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.met { "met" } else { "missed" };
        write!(f, "goal {} {} {}{} {verdict}", self.name, self.unit.show(self.value), self.target, self.unit.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Unit;

    fn goal(samples: &[f64], target: Target) -> Goal {
        let mut measurement = Measurement::new("commit-vs-log", Unit::Ratio);
        samples.iter().for_each(|sample| measurement.push(*sample));
        Goal::new(&measurement, target)
    }

    #[test]
    fn the_line_has_five_words() {
        let line = goal(&[0.5, 0.9, 0.8], Target::AtLeast(0.7)).to_string();
        assert_eq!(line, "goal commit-vs-log 0.80x >=0.7x met");
        assert_eq!(goal(&[0.5], Target::AtLeast(0.7)).to_string(), "goal commit-vs-log 0.50x >=0.7x missed");
    }

    #[test]
    fn the_median_decides() {
        assert!(goal(&[0.1, 0.9, 0.9], Target::AtLeast(0.7)).met);
        assert!(!goal(&[0.1, 0.1, 0.9], Target::AtLeast(0.7)).met);
    }

    #[test]
    fn bounds_are_as_they_read() {
        assert!(goal(&[2.0], Target::AtLeast(2.0)).met);
        assert!(goal(&[2.0], Target::AtMost(2.0)).met);
        assert!(!goal(&[2.0], Target::Under(2.0)).met);
        assert!(goal(&[1.9], Target::Under(2.0)).met);
        assert!(!goal(&[2.1], Target::AtMost(2.0)).met);
    }

    #[test]
    fn what_was_not_measured_is_missed() {
        for target in [Target::AtLeast(0.0), Target::AtMost(9.0), Target::Under(9.0)] {
            assert!(!goal(&[], target).met);
        }
    }
}
