use std::collections::BTreeMap;
use std::fmt;

use mainstay_core::{Error, Result};

use super::assignment::{Assignment, Scope, is_bare};
use super::effective::Setting;
use super::environment::variable_of;
use super::form::Raw;
use super::key::Key;
use super::nearest::nearest;
use super::origin::Origin;
use super::problem::{Problem, refusal};
use super::resolve::{Layered, refused, section_alone};

/// A section of settings that a library or an application describes: where it stands in the file, its keys, and what does not go
/// together. The settings themselves are a type of its own, `T`, with the values of the code in it.
///
/// It is given to the node by [`NodeBuilder::section`](crate::NodeBuilder::section) and its kin, and read by
/// [`Settings::section`](crate::Settings::section). From then on file, environment and builder can set its keys as they can set any
/// other, mistakes are told with their place, and `print_config` shows each value with where it comes from.
pub struct Section<T: 'static> {
    pub(crate) path: &'static str,
    keys: &'static [Key<T>],
    check: fn(&T) -> Result<()>,
}

impl<T> Clone for Section<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Section<T> {}

impl<T> fmt::Debug for Section<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<T> Section<T> {
    /// A section at this place: `shop` is `[shop]` in the file. Of sections with names, the place without the name: `shop.shelves`
    /// for `[shop.shelves.NAME]`. Letters, digits and underscores, with dots between parts.
    pub const fn new(path: &'static str, keys: &'static [Key<T>]) -> Self {
        Self { path, keys, check: |_| Ok(()) }
    }

    /// The same, with a look at all values together. The error is to name the keys that it is about, as they are in the file: the
    /// place of the last of them is shown with it.
    #[must_use]
    pub const fn with_check(mut self, check: fn(&T) -> Result<()>) -> Self {
        self.check = check;
        self
    }

    /// Lays what operators have said over the values of the code.
    fn lay(&self, place: &Place, mut layers: Layered<T>, wishes: &[Assignment]) -> Laid<T> {
        let mut problems = Vec::new();
        let mut said = BTreeMap::new();
        for wish in wishes {
            let Some(key) = place.within(&wish.key, self.keys.iter().map(|key| key.name)) else { continue };
            let wish = Assignment { scope: Scope::Section(place.clone()), key, ..wish.clone() };
            let taken = match wish.key.as_str() {
                "" => section_alone(&wish),
                _ => layers.assign(&wish, &[]),
            };
            match taken {
                Ok(()) => {
                    said.insert(wish.key.clone(), wish);
                }
                Err(problem) => problems.push(problem),
            }
        }
        Laid { layers, said, problems }
    }

    /// What does not go together, if operators have said anything. What the code says alone is its own to check.
    fn contradiction(&self, place: &Place, laid: &Laid<T>) -> Option<Problem> {
        if laid.said.is_empty() {
            return None;
        }
        refused(&place.to_string(), &laid.layers, (self.check)(&laid.layers.value))
    }

    /// All that is wrong with what operators have said, beside what the code says.
    fn objections(&self, place: &Place, laid: &Laid<T>) -> Vec<Problem> {
        let without_meaning = laid.said.values().filter_map(|wish| laid.layers.confirm(wish).err());
        without_meaning.chain(self.contradiction(place, laid)).collect()
    }

    /// The effective values, or everything that is wrong.
    pub(super) fn effective(&self, name: Option<&str>, code: T, wishes: &[Assignment]) -> Result<T> {
        let place = Place::new(self.path, name);
        let mut laid = self.lay(&place, Layered::new(self.keys, code), wishes);
        laid.problems.extend(self.objections(&place, &laid));
        match laid.problems.is_empty() {
            true => Ok(laid.layers.value),
            false => Err(refusal(&laid.problems)),
        }
    }
}

/// Values with what was said about them.
struct Laid<T: 'static> {
    layers: Layered<T>,
    /// The last that was said of each key.
    said: BTreeMap<String, Assignment>,
    problems: Vec<Problem>,
}

/// Where a section is: its path, and its name if it has one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    path: &'static str,
    name: Option<String>,
}

impl Place {
    fn new(path: &'static str, name: Option<&str>) -> Self {
        Self { path, name: name.map(str::to_owned) }
    }

    /// A key with its section in front, as it is compared.
    fn plain(&self, key: &str) -> String {
        let name = self.name.as_ref().map_or(String::new(), |name| format!(".{name}"));
        format!("{}{name}{}{key}", self.path, if key.is_empty() { "" } else { "." })
    }

    /// The same as the file has it, where a name that is not a bare one needs quotes.
    pub(crate) fn full(&self, key: &str) -> String {
        format!("{self}{}{key}", if key.is_empty() { "" } else { "." })
    }

    /// The key within this section that a key of the file or a variable of the environment means; `None` if it means another
    /// section.
    fn within(&self, written: &str, keys: impl Iterator<Item = &'static str>) -> Option<String> {
        let plain = self.plain("");
        match written.strip_prefix(plain.as_str()) {
            Some("") => Some(String::new()),
            Some(rest) => rest.strip_prefix('.').map(str::to_owned),
            None => {
                let mut keys = keys.map(|key| (variable_of(&self.plain(key)), key));
                keys.find(|(variable, _)| variable == written).map(|(_, key)| key.to_owned())
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            None => f.write_str(self.path),
            Some(name) if is_bare(name) => write!(f, "{}.{name}", self.path),
            Some(name) => write!(f, "{}.{}", self.path, serde_json::Value::String(name.clone())),
        }
    }
}

/// Which sections there are at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Names {
    /// The one without a name.
    None,
    /// The one of this name.
    One(String),
    /// Those of all names: which there are is known as the program runs.
    Any,
}

/// A section without its type.
struct Described {
    path: &'static str,
    names: Names,
    keys: Vec<&'static str>,
    judge: Judge,
}

/// Says what to show of a section, and what is wrong with it.
type Judge = Box<dyn FnOnce(&[Assignment]) -> (Vec<Setting>, Vec<Problem>) + Send>;

impl Described {
    /// Splits what follows the path into a name and a key. Names may have dots, so the key is found from the end.
    fn split<'k>(&self, rest: &'k str) -> Option<(&'k str, &'k str)> {
        let known = self.keys.iter();
        let ends = known.filter_map(|known| {
            let name = rest.strip_suffix(known)?.strip_suffix('.')?;
            Some((name, &rest[rest.len() - known.len()..]))
        });
        ends.min_by_key(|(name, _)| name.len()).or_else(|| rest.split_once('.'))
    }

    /// Whether a key of the file is one of this section, or below it.
    fn has_key(&self, key: &str) -> bool {
        let rest = key.strip_prefix(self.path).and_then(|rest| rest.strip_prefix('.'));
        match &self.names {
            Names::None => key == self.path || rest.is_some(),
            Names::One(name) => {
                let rest = rest.and_then(|rest| rest.strip_prefix(name.as_str()));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }
            Names::Any => rest.is_some_and(|rest| self.split(rest).is_some() || !self.keys.contains(&rest)),
        }
    }

    fn has_variable(&self, variable: &str) -> bool {
        match &self.names {
            Names::Any => self.name_in(variable).is_some(),
            names => {
                let place = Place { path: self.path, name: names.one() };
                self.keys.iter().any(|key| variable_of(&place.plain(key)) == variable)
            }
        }
    }

    /// The name in a variable for a section of any name, as far as a variable can have it.
    fn name_in(&self, variable: &str) -> Option<String> {
        let rest = variable.strip_prefix(&variable_of(self.path))?.strip_prefix('_')?;
        let ends = self.keys.iter().filter_map(|key| {
            let key = variable_of(key);
            rest.strip_suffix(key.strip_prefix(super::VARIABLE_PREFIX)?)?.strip_suffix('_')
        });
        ends.filter(|name| !name.is_empty()).min_by_key(|name| name.len()).map(str::to_lowercase)
    }
}

impl Names {
    fn one(&self) -> Option<String> {
        match self {
            Self::One(name) => Some(name.clone()),
            Self::None | Self::Any => None,
        }
    }
}

/// All sections that libraries and the application have described.
#[derive(Default)]
pub(crate) struct Sections {
    described: Vec<Described>,
    refused: Option<Error>,
}

impl fmt::Debug for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.described.iter().map(|section| (section.path, &section.names))).finish()
    }
}

/// What was said about sections, by the path of each.
pub(crate) type Wishes = BTreeMap<&'static str, Vec<Assignment>>;

/// Whose key it is.
pub(super) enum Claim {
    /// That of the sections at this path.
    Section(&'static str),
    /// Of no section that there is, although it stands where sections are.
    Wrong(String),
    /// Of something else.
    None,
}

impl Sections {
    /// Adds a section, or those of all names. What was given before of the same place and name stays.
    pub(crate) fn add<T: Default + Clone + Send + 'static>(&mut self, section: Section<T>, names: Names, code: T) {
        if let Err(error) = check_path(section.path) {
            self.refused.get_or_insert(error);
            return;
        }
        if self.described.iter().any(|known| known.path == section.path && known.names == names) {
            return;
        }
        let keys = section.keys.iter().map(|key| key.name).collect();
        let judge: Judge = match names.clone() {
            Names::Any => Box::new(move |wishes| judge_any(&section, wishes)),
            names => Box::new(move |wishes| judge_one(&section, names.one().as_deref(), code, wishes)),
        };
        self.described.push(Described { path: section.path, names, keys, judge });
    }

    /// The first parts of all places.
    pub(super) fn tops(&self) -> Vec<&'static str> {
        self.described.iter().filter_map(|section| section.path.split('.').next()).collect()
    }

    /// Says whose a key of the file or of the builder is, if it is not of the node.
    pub(super) fn claim(&self, key: &str, raw: &Raw) -> Claim {
        if let Some(section) = self.described.iter().find(|section| section.has_key(key)) {
            return Claim::Section(section.path);
        }
        let is_below = |above: &str, key: &str| {
            key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if self.described.iter().any(|section| is_below(key, section.path)) {
            return match raw == &Raw::Other("empty table") {
                true => Claim::Section(""),
                false => Claim::Wrong(format!("{key} is a section and not a setting: write [{key}]")),
            };
        }
        let at: Vec<_> = self.described.iter().filter(|section| is_below(section.path, key)).collect();
        if let Some(section) = at.first() {
            let path = section.path;
            let rest = &key[(path.len() + 1).min(key.len())..];
            if section.keys.contains(&rest) {
                return Claim::Wrong(format!("{key} is a setting of one of them: write it below [{path}.NAME]"));
            }
            let names: Vec<_> = at.iter().filter_map(|section| section.names.one()).collect();
            let name = section.split(rest).map_or(rest, |(name, _)| name);
            return Claim::Wrong(
                self.stranger(&format!("{path}.{name}"), names.iter().map(|name| format!("{path}.{name}"))),
            );
        }
        let top = key.split('.').next().unwrap_or(key);
        match self.tops().contains(&top) {
            true => Claim::Wrong(self.stranger(key, self.described.iter().map(|section| section.path.to_owned()))),
            false => Claim::None,
        }
    }

    /// A section that this program does not have.
    fn stranger(&self, written: &str, known: impl Iterator<Item = String>) -> String {
        let mut known: Vec<_> = known.collect();
        known.dedup();
        let meant = nearest(written, known.iter().map(String::as_str));
        let meant = meant.map_or(String::new(), |meant| format!(": did you mean {meant:?}?"));
        format!("this program has no section {written:?}{meant} (it has {})", known.join(", "))
    }

    /// The path of the sections that a variable sets something in.
    pub(super) fn claim_variable(&self, variable: &str) -> Option<&'static str> {
        self.described.iter().find(|section| section.has_variable(variable)).map(|section| section.path)
    }

    /// The variables that set something, as far as they are known.
    pub(super) fn variables(&self) -> impl Iterator<Item = String> + '_ {
        let named = self.described.iter().filter(|section| section.names != Names::Any);
        named.flat_map(|section| {
            let place = Place { path: section.path, name: section.names.one() };
            section.keys.iter().map(move |key| variable_of(&place.plain(key)))
        })
    }

    /// What to show of all sections, and what is wrong with them.
    ///
    /// # Errors
    /// `Invalid` if a section is where none can be.
    pub(super) fn judge(self, wishes: &Wishes, problems: &mut Vec<Problem>) -> Result<Vec<Setting>> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let mut shown = Vec::new();
        for section in self.described {
            let (entries, wrong) = (section.judge)(wishes.get(section.path).map_or(&[][..], Vec::as_slice));
            shown.extend(entries);
            problems.extend(wrong);
        }
        Ok(shown)
    }
}

fn judge_one<T: Default>(
    section: &Section<T>,
    name: Option<&str>,
    code: T,
    wishes: &[Assignment],
) -> (Vec<Setting>, Vec<Problem>) {
    let place = Place::new(section.path, name);
    let mut layers = Layered::new(section.keys, T::default());
    layers.change(Origin::Code, &[], |value| *value = code);
    let mut laid = section.lay(&place, layers, wishes);
    laid.problems.extend(section.objections(&place, &laid));
    (laid.layers.entries(&Scope::Section(place)), laid.problems)
}

/// Of sections whose names and whose code are not known, what was said is shown, and checked as far as it can be: what contradicts
/// a default is left to the code, which may say otherwise.
fn judge_any<T: Default + 'static>(section: &Section<T>, wishes: &[Assignment]) -> (Vec<Setting>, Vec<Problem>) {
    let (mut shown, mut problems) = (Vec::new(), Vec::new());
    for place in places(section, wishes) {
        let mut laid = section.lay(&place, Layered::new(section.keys, T::default()), wishes);
        let wrong = section.contradiction(&place, &laid).filter(|problem| {
            let named = laid.layers.named_in(&problem.text);
            named.iter().all(|key| laid.layers.is_said(key))
        });
        laid.problems.extend(wrong);
        problems.append(&mut laid.problems);
        shown.extend(section.keys.iter().filter_map(|key| {
            let wish = laid.said.get(key.name)?;
            let value = key.form.read(&wish.raw)?;
            Some(Setting { key: wish.name(), value, origin: wish.origin.clone() })
        }));
    }
    (shown, problems)
}

/// The sections of any name that something was said about.
fn places<T: 'static>(section: &Section<T>, wishes: &[Assignment]) -> Vec<Place> {
    let path = section.path;
    let keys = section.keys.iter().map(|key| key.name).collect();
    let family = Described { path, names: Names::Any, keys, judge: Box::new(|_| Default::default()) };
    let mut places: BTreeMap<String, Place> = BTreeMap::new();
    for wish in wishes {
        let rest = wish.key.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'));
        let name = match rest {
            Some(rest) => Some(family.split(rest).map_or(rest, |(name, _)| name).to_owned()),
            None => family.name_in(&wish.key),
        };
        // A name as the file has it goes before what can be guessed from a variable: the file comes first.
        let place = name.map(|name| Place::new(path, Some(&name)));
        places.extend(
            place.map(|place| (variable_of(&place.plain("")), place)).filter(|(key, _)| !places.contains_key(key)),
        );
    }
    places.into_values().collect()
}

fn check_path(path: &str) -> Result<()> {
    let is_part =
        |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let top = path.split('.').next().unwrap_or(path);
    if !path.split('.').all(is_part) {
        return Err(Error::invalid(format!(
            "a section of settings is called {path:?}: use letters, digits and underscores, with dots between parts"
        )));
    }
    if super::resolve::is_taken(top) {
        return Err(Error::invalid(format!(
            "a section of settings is called {path:?}, and {top:?} is of the node: use another name"
        )));
    }
    Ok(())
}
