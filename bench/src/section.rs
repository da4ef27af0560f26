use crate::actors;
use crate::collections;
use crate::foundations;
use crate::governance;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::settings::Settings;

/// A part of the system with goals of its own.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) benches: &'static [Bench],
    run: fn(&Settings, &mut Report) -> Outcome<()>,
}

/// What can be chosen within a section.
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
}

/// All sections. A new one gets a module and a line here.
pub(crate) const SECTIONS: &[Section] = &[
    Section {
        name: "foundations",
        about: "the node log, the state stores and the replicas",
        benches: foundations::BENCHES,
        run: foundations::run,
    },
    Section {
        name: "collections",
        about: "transactions and collections",
        benches: collections::BENCHES,
        run: collections::run,
    },
    Section {
        name: "actors",
        about: "asks, activations and durable calls of actors, beside actor libraries",
        benches: actors::BENCHES,
        run: actors::run,
    },
    Section {
        name: "governance",
        about: "rows of many callers through few connections and files, beside what is written by hand",
        benches: governance::BENCHES,
        run: governance::run,
    },
];

impl Section {
    /// The section of a name.
    ///
    /// # Errors
    /// With the names that there are.
    pub(crate) fn find(name: &str) -> Outcome<&'static Section> {
        let found = SECTIONS.iter().find(|section| section.name == name);
        found.ok_or_else(|| {
            let names: Vec<_> = SECTIONS.iter().map(|section| section.name).collect();
            format!("there is no section {name:?}: choose from {}", names.join(", ")).into()
        })
    }

    /// Measures what the settings ask for.
    ///
    /// # Errors
    /// For a bench that does not exist, and when something breaks; never for a goal that is missed.
    pub(crate) fn run(&self, settings: &Settings) -> Outcome<Report> {
        for name in &settings.only {
            if !self.benches.iter().any(|bench| bench.name == name) {
                let names: Vec<_> = self.benches.iter().map(|bench| bench.name).collect();
                let section = self.name;
                return Err(format!("{section} has no bench {name:?}: choose from {}", names.join(", ")).into());
            }
        }
        let mut report = Report::new(self.name, settings.quick, settings.rounds());
        (self.run)(settings, &mut report)?;
        Ok(report)
    }
}

/// What a fresh copy of this program does for one measurement of a section; it prints figures only.
///
/// # Errors
/// When something breaks, or the words are not ours.
pub(crate) fn child(words: &[String]) -> Outcome<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let figures = match words[..] {
        ["foundations", ref rest @ ..] => foundations::child(rest)?,
        ["actors", ref rest @ ..] => actors::child(rest)?,
        _ => return Err(format!("there is no measurement {words:?}").into()),
    };
    let figures: Vec<String> = figures.iter().map(ToString::to_string).collect();
    println!("{}", figures.join(" "));
    Ok(())
}

/// The sections and their benches, for people.
pub(crate) fn list() -> String {
    let mut lines = Vec::new();
    for section in SECTIONS {
        lines.push(format!("{}: {}", section.name, section.about));
        lines.extend(section.benches.iter().map(|bench| format!("  {:<17}{}", bench.name, bench.about)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_found_by_its_name() {
        assert_eq!(Section::find("foundations").unwrap().name, "foundations");
        let error = Section::find("nonsense").err().unwrap().to_string();
        assert!(error.contains("nonsense") && error.contains("foundations"), "{error}");
    }

    #[test]
    fn an_unknown_bench_is_refused_before_anything_runs() {
        let settings = Settings { quick: true, only: vec!["lgo".to_owned()], dir: "nowhere".into() };
        let error = Section::find("foundations").unwrap().run(&settings).err().unwrap().to_string();
        assert!(error.contains("lgo") && error.contains("log"), "{error}");
    }

    #[test]
    fn the_list_names_everything() {
        let list = list();
        for section in SECTIONS {
            assert!(list.contains(section.name));
            assert!(section.benches.iter().all(|bench| list.contains(bench.name)));
        }
    }
}
