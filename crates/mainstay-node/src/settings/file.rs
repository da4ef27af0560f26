use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Result};
use toml::de::{DeTable, DeValue};

use super::assignment::{Assignment, DEFAULTS, SERVICES, Scope};
use super::form::Raw;
use super::origin::Origin;
use super::problem::Problem;

/// The file that is read if it lies in the current folder.
pub const CONFIG_FILE_DEFAULT: &str = "mainstay.toml";

/// The largest configuration file.
pub const CONFIG_FILE_BYTES_MAX: u64 = 1 << 20;

/// A configuration file, read and not yet understood.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: Arc<PathBuf>,
    text: String,
}

impl ConfigFile {
    /// A file with this text, as if it had been read.
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: Arc::new(path.into()), text: text.to_owned() }
    }

    /// Reads a file that somebody named.
    ///
    /// # Errors
    /// `NotFound` if it is not there, `TooLarge` above [`CONFIG_FILE_BYTES_MAX`], `Invalid` if it cannot be read as text.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let cannot = |error: std::io::Error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Invalid,
            };
            let text = format!(
                "cannot read the configuration file {name}: check its path, that this user may read it and that it is text in UTF-8"
            );
            Error::new(kind, text).with_source(error)
        };
        let file = std::fs::File::open(path).map_err(cannot)?;
        let mut text = String::new();
        file.take(CONFIG_FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
        if text.len() as u64 > CONFIG_FILE_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the configuration file {name} is larger than CONFIG_FILE_BYTES_MAX of {CONFIG_FILE_BYTES_MAX} bytes: is \
                     it the right file?"
                ),
            ));
        }
        Ok(Self { path: Arc::new(path.to_owned()), text })
    }

    /// Reads the file of the current folder, if there is one.
    ///
    /// # Errors
    /// As [`read`](ConfigFile::read), apart from `NotFound`.
    pub(crate) fn read_default() -> Result<Option<Self>> {
        match Self::read(Path::new(CONFIG_FILE_DEFAULT)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The file, as it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All that the file says, in the order of its keys.
    ///
    /// # Errors
    /// The first thing that is no TOML.
    pub(crate) fn assignments(&self) -> Result<Vec<Assignment>, Problem> {
        let table = DeTable::parse(&self.text).map_err(|error| Problem {
            place: self.place(error.span().map_or(0, |span| span.start)),
            text: format!("this is not TOML: {}", error.message()),
        })?;
        let mut found = Vec::new();
        for (key, value) in table.get_ref() {
            let line = key.span().start;
            match (key.get_ref().as_ref(), value.get_ref()) {
                (DEFAULTS, DeValue::Table(table)) => self.flatten(&Scope::Defaults, "", line, table, &mut found),
                (SERVICES, DeValue::Table(services)) => {
                    for (name, value) in services {
                        let scope = Scope::Service(name.get_ref().to_string());
                        let line = name.span().start;
                        match value.get_ref() {
                            DeValue::Table(table) => self.flatten(&scope, "", line, table, &mut found),
                            other => found.push(self.assignment(&scope, "", line, raw(other))),
                        }
                    }
                }
                (key, DeValue::Table(table)) => self.flatten(&Scope::Node, key, line, table, &mut found),
                (key, value) => found.push(self.assignment(&Scope::Node, key, line, raw(value))),
            }
        }
        Ok(found)
    }

    /// Lists what a table has, with the names of tables within it joined by dots.
    fn flatten(&self, scope: &Scope, prefix: &str, at: usize, table: &DeTable<'_>, found: &mut Vec<Assignment>) {
        if table.is_empty() {
            found.push(self.assignment(scope, prefix, at, Raw::Other("empty table")));
        }
        for (key, value) in table {
            let name =
                if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
            match value.get_ref() {
                DeValue::Table(inner) => self.flatten(scope, &name, key.span().start, inner, found),
                other => found.push(self.assignment(scope, &name, key.span().start, raw(other))),
            }
        }
    }

    fn assignment(&self, scope: &Scope, key: &str, at: usize, raw: Raw) -> Assignment {
        Assignment { scope: scope.clone(), key: key.to_owned(), raw, origin: self.place(at) }
    }

    fn place(&self, at: usize) -> Origin {
        let before = self.text.as_bytes().iter().take(at);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        Origin::File { path: self.path.clone(), line }
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Raw::Integer(number),
            Err(_) => Raw::Other("integer"),
        },
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Array(values) => {
            let texts = values.iter().map(|value| match value.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            texts.collect::<Option<Vec<_>>>().map_or(Raw::Other("array"), Raw::List)
        }
        other => Raw::Other(other.type_str()),
    }
}
