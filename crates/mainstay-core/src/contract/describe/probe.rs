use std::fmt;

use serde::de;

use super::TYPE_NAME_BYTES_MAX;
use super::choices::Choices;
use super::place::Place;

/// What one run of a type's `Deserialize` has shown.
#[derive(Debug)]
pub(super) struct Probe<'c> {
    pub(super) name: String,
    choices: &'c mut Choices,
    pub(super) questions_left: &'c mut u32,
    pub(super) sample_depth: u16,
    /// The first thing that went wrong with the name.
    pub(super) trouble: Option<Verdict>,
    /// True once the key of the map that is being named turned out to be the name of a field.
    pub(super) has_fields: bool,
}

/// What came of a run.
#[derive(Debug)]
pub(super) enum Verdict {
    Named(String),
    /// A sample was refused before all was seen.
    Unseen,
    /// A type gave a value, or an error, without asking for anything.
    Silent,
    TooLong,
    TooDeep,
}

impl<'c> Probe<'c> {
    pub(super) fn new(choices: &'c mut Choices, questions_left: &'c mut u32, sample_depth: u16) -> Self {
        Self { name: String::new(), choices, questions_left, sample_depth, trouble: None, has_fields: false }
    }

    /// What the type is deserialized from.
    pub(super) fn root(&mut self) -> Place<'_, 'c> {
        Place::root(self)
    }

    pub(super) fn verdict(self) -> Verdict {
        match self.trouble {
            Some(trouble) => trouble,
            None if self.name.is_empty() => Verdict::Silent,
            None => Verdict::Named(self.name),
        }
    }

    pub(super) fn push(&mut self, part: &str) {
        if self.name.len() + part.len() > TYPE_NAME_BYTES_MAX {
            self.fail(Verdict::TooLong);
        } else {
            self.name.push_str(part);
        }
    }

    pub(super) fn fail(&mut self, trouble: Verdict) {
        self.trouble.get_or_insert(trouble);
    }

    pub(super) fn choose(&mut self, count: usize) -> Result<usize, Stop> {
        self.choices.choose(count).ok_or(Stop)
    }
}

/// Ends a run: there is nothing more to see, or a sample was refused. What the run told is in the [`Probe`].
#[derive(Debug)]
pub(super) struct Stop;

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the type is described and not read")
    }
}

impl std::error::Error for Stop {}

impl de::Error for Stop {
    fn custom<M: fmt::Display>(_message: M) -> Self {
        Stop
    }
}
