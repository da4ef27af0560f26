//! Where the programs of the server are.

use std::path::{Path, PathBuf};
use std::process::Command;

use mainstay::{Error, ErrorKind, Result};

/// Below these, each version has a folder with its programs.
const VERSIONED: &[(&str, &str)] = &[
    ("/usr/lib/postgresql", "bin"),
    ("/usr/local/lib/postgresql", "bin"),
    ("/opt/homebrew/opt", "bin"),
    ("/usr/local/opt", "bin"),
    ("/Library/PostgreSQL", "bin"),
];

/// Folders that hold the programs of the one version there is.
const PLAIN: &[&str] = &["/usr/pgsql/bin", "/usr/local/pgsql/bin", "/opt/homebrew/bin", "/usr/local/bin", "/usr/bin"];

/// The programs of one version of PostgreSQL.
#[derive(Debug, Clone)]
pub(super) struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// The newest version that is installed; what is on the path comes first.
    pub(super) fn find() -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).collect();
        Self::find_in(on_path, versioned(), PLAIN.iter().map(PathBuf::from).collect())
    }

    fn find_in(on_path: Vec<PathBuf>, versioned: Vec<PathBuf>, plain: Vec<PathBuf>) -> Result<Self> {
        let mut folders = on_path.into_iter().chain(versioned).chain(plain);
        let folder = folders.find(|folder| is_complete(folder)).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "no PostgreSQL server is installed: run `cargo xtask check --only test`, which installs it, or install the \
                 package by hand (postgresql on Debian and Homebrew, postgresql-server on Fedora)",
            )
        })?;
        Ok(Self { folder })
    }

    pub(super) fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    pub(super) fn command(&self, program: &str) -> Command {
        Command::new(self.path(program))
    }
}

fn is_complete(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| folder.join(program).is_file())
}

/// The folders of the versions that are installed, the newest first.
fn versioned() -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for (below, programs) in VERSIONED {
        for entry in std::fs::read_dir(below).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if let Some(version) = name.to_str().and_then(version) {
                found.push((version, entry.path().join(programs)));
            }
        }
    }
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, folder)| folder).collect()
}

/// The major version that the name of a folder means: `16`, `9.6` or `postgresql@16`.
fn version(name: &str) -> Option<u32> {
    let number = name.strip_prefix("postgresql@").unwrap_or(name);
    if name == "postgresql" {
        return Some(0);
    }
    number.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_tell_the_version() {
        assert_eq!(version("16"), Some(16));
        assert_eq!(version("9.6"), Some(9));
        assert_eq!(version("postgresql@17"), Some(17));
        assert_eq!(version("postgresql"), Some(0));
        assert_eq!(version("openssl@3"), None);
    }

    #[test]
    fn without_a_server_the_error_says_how_to_get_one() {
        let empty = tempfile::tempdir().unwrap();
        let error = Binaries::find_in(vec![empty.path().into()], Vec::new(), Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("cargo xtask check --only test"), "{error}");
    }

    #[test]
    fn a_folder_with_the_client_alone_is_passed_over() {
        let (client, server) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(client.path().join("psql"), "").unwrap();
        for program in ["psql", "initdb", "postgres"] {
            std::fs::write(server.path().join(program), "").unwrap();
        }
        let found = Binaries::find_in(vec![client.path().into()], vec![server.path().into()], Vec::new()).unwrap();
        assert_eq!(found.path("postgres"), server.path().join("postgres"));
    }
}
