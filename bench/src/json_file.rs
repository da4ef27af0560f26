use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use crate::outcome::Outcome;
use crate::report::Report;

/// The file that a report goes to.
#[derive(Debug)]
pub(crate) struct JsonFile {
    path: PathBuf,
    file: File,
}

impl JsonFile {
    /// # Errors
    /// If it cannot be written to.
    pub(crate) fn create(path: PathBuf) -> Outcome<Self> {
        let file = File::create(&path).map_err(|error| format!("cannot write to {}: {error}", path.display()))?;
        Ok(Self { path, file })
    }

    /// # Errors
    /// If there is no room for it.
    pub(crate) fn write(mut self, report: &Report) -> Outcome<()> {
        let json = report.to_json()? + "\n";
        let written = self.file.write_all(json.as_bytes());
        Ok(written.map_err(|error| format!("cannot write to {}: {error}", self.path.display()))?)
    }
}
