use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::command::Outcome;

/// What became of the mutants of a room.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    all: usize,
    caught: BTreeSet<String>,
    /// The tests pass as if it were not there.
    missed: BTreeSet<String>,
    /// Its tests were ended, because they did not end by themselves. That is to be noticed as well.
    timed_out: BTreeSet<String>,
    /// It does not compile.
    unviable: BTreeSet<String>,
    untried: BTreeSet<String>,
}

impl Findings {
    /// Nothing was tried of a list of mutants, one in a line.
    pub(crate) fn none(all: &str) -> Self {
        let untried: BTreeSet<String> = all.lines().map(str::to_owned).collect();
        Self { all: untried.len(), untried, ..Self::default() }
    }

    /// Reads what cargo-mutants has written, which it does as it goes.
    pub(crate) fn read(all: &str, results: &Path) -> Outcome<Self> {
        let read = |name: &str| match fs::read_to_string(results.join(name)) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect::<BTreeSet<_>>()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(format!("{} cannot be read: {error}", results.join(name).display())),
        };
        let mut findings = Self::none(all);
        findings.caught = read("caught.txt")?;
        // Of earlier runs that this one goes on from.
        findings.caught.extend(read("previously_caught.txt")?);
        findings.missed = read("missed.txt")?;
        findings.timed_out = read("timeout.txt")?;
        findings.unviable = read("unviable.txt")?;
        let Self { caught, missed, timed_out, unviable, .. } = &findings;
        let tried: BTreeSet<&String> = [caught, missed, timed_out, unviable].into_iter().flatten().collect();
        findings.untried = findings.untried.iter().filter(|mutant| !tried.contains(mutant)).cloned().collect();
        Ok(findings)
    }

    /// How many no test has noticed.
    pub(crate) fn survivors(&self) -> usize {
        self.missed.len()
    }

    /// How many were not tried, by their file.
    fn untried_by_file(&self) -> BTreeMap<&str, usize> {
        let mut files = BTreeMap::new();
        for mutant in &self.untried {
            *files.entry(mutant.split(':').next().unwrap_or(mutant)).or_default() += 1;
        }
        files
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { all, caught, missed, timed_out, unviable, untried } = self;
        write!(f, "{all} mutants: {} caught, {} survive, ", caught.len(), missed.len())?;
        write!(f, "{} did not end, {} do not compile, ", timed_out.len(), unviable.len())?;
        write!(f, "{} not tried", untried.len())?;
        for mutant in missed {
            write!(f, "\n  survives: {mutant}")?;
        }
        for (file, count) in self.untried_by_file() {
            write!(f, "\n  not tried: {count} of {file}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_survives_and_what_was_not_tried_is_named() {
        let folder = std::env::temp_dir().join(format!("mutants-findings-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let all = "a.rs:1:1: one\na.rs:2:1: two\nb.rs:3:1: three\nb.rs:4:1: four\nb.rs:5:1: five\nb.rs:6:1: six";
        for (name, text) in [
            ("caught.txt", "a.rs:1:1: one\n"),
            ("missed.txt", "a.rs:2:1: two\n"),
            ("unviable.txt", "b.rs:3:1: three\n"),
            ("previously_caught.txt", "b.rs:4:1: four\n"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        let findings = Findings::read(all, &folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(findings.survivors(), 1);
        assert_eq!(
            findings.to_string(),
            "6 mutants: 2 caught, 1 survive, 0 did not end, 1 do not compile, 2 not tried\n  survives: a.rs:2:1: two\n  not \
             tried: 2 of b.rs"
        );
        assert_eq!(
            Findings::none(all).to_string().lines().next(),
            Some(
                "6 mutants: 0 caught, 0 survive, 0 did not end, 0 do \
             not compile, 6 not tried"
            )
        );
    }
}
