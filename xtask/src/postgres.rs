//! The PostgreSQL server that the tests of resource governance run, found or installed.

use std::path::{Path, PathBuf};

use crate::command::{Outcome, program, run};

/// Folders below which each version has a `bin` of its own.
const VERSIONED: &[&str] =
    &["/usr/lib/postgresql", "/usr/local/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt", "/Library/PostgreSQL"];

/// Folders that may hold the server's programs themselves, beside those on the path.
const PLAIN: &[&str] = &["/usr/pgsql/bin", "/usr/local/pgsql/bin", "/opt/homebrew/bin", "/usr/local/bin", "/usr/bin"];

/// One way to install the server.
struct Installer {
    /// The program that must be there.
    manager: &'static str,
    /// What is run, one after the other.
    commands: &'static [&'static [&'static str]],
    /// Whether it changes the system, which only an administrator may.
    as_root: bool,
}

const INSTALLERS: &[Installer] = &[
    Installer {
        manager: "apt-get",
        commands: &[&["apt-get", "update"], &["apt-get", "install", "-y", "postgresql"]],
        as_root: true,
    },
    Installer { manager: "dnf", commands: &[&["dnf", "install", "-y", "postgresql-server"]], as_root: true },
    Installer { manager: "pacman", commands: &[&["pacman", "-Sy", "--noconfirm", "postgresql"]], as_root: true },
    Installer { manager: "zypper", commands: &[&["zypper", "-n", "install", "postgresql-server"]], as_root: true },
    Installer { manager: "apk", commands: &[&["apk", "add", "postgresql"]], as_root: true },
    // Homebrew refuses to be run by an administrator.
    Installer { manager: "brew", commands: &[&["brew", "install", "postgresql@17"]], as_root: false },
];

/// Makes sure that there is a PostgreSQL server, and installs one if there is none.
pub(crate) fn need() -> Outcome {
    if find().is_some() {
        return Ok(());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    for words in installation(is_there, is_root())? {
        println!("no PostgreSQL server is installed: running `{}`", words.join(" "));
        let [first, rest @ ..] = words.as_slice() else { continue };
        run(program(first).args(rest).env("DEBIAN_FRONTEND", "noninteractive")).map_err(|cause| {
            format!("{cause}; install PostgreSQL's server by hand, its tests start one of their own")
        })?;
    }
    match find() {
        Some(_) => Ok(()),
        None => {
            Err("PostgreSQL was installed, but `initdb` and `postgres` are not where they are looked for: put their \
                     folder on the path"
                .to_owned())
        }
    }
}

/// The folder of the server's programs.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let below = VERSIONED.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let versioned = below.map(|entry| entry.path().join("bin"));
    let plain = PLAIN.iter().map(PathBuf::from);
    let is_complete = |folder: &Path| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file());
    std::env::split_paths(&path).chain(versioned).chain(plain).find(|folder| is_complete(folder))
}

/// What to run, as words, or what a person has to do.
fn installation(is_there: impl Fn(&str) -> bool, is_root: bool) -> Outcome<Vec<Vec<&'static str>>> {
    let found = INSTALLERS.iter().find(|installer| is_there(installer.manager));
    let Some(Installer { commands, as_root, .. }) = found else {
        let known: Vec<_> = INSTALLERS.iter().map(|installer| installer.manager).collect();
        return Err(format!(
            "no PostgreSQL server is installed, and none of {known:?} is there to install it: put a folder with `initdb` \
             and `postgres` on the path"
        ));
    };
    let before: &[&str] = match (*as_root, is_root) {
        (true, false) if is_there("sudo") => &["sudo"],
        (true, false) => {
            let by_hand: Vec<_> = commands.iter().map(|words| words.join(" ")).collect();
            return Err(format!("no PostgreSQL server is installed: as root, run `{}`", by_hand.join(" && ")));
        }
        _ => &[],
    };
    Ok(commands.iter().map(|words| [before, words].concat()).collect())
}

/// True if we are the administrator: then what belongs to nobody else is ours.
#[cfg(unix)]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;

    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(there: &[&str], is_root: bool) -> Outcome<Vec<String>> {
        let commands = installation(|name| there.contains(&name), is_root)?;
        Ok(commands.iter().map(|words| words.join(" ")).collect())
    }

    #[test]
    fn root_installs_directly_and_others_by_sudo() {
        let apt = ["apt-get update", "apt-get install -y postgresql"];
        assert_eq!(chosen(&["apt-get", "sudo"], true).unwrap(), apt);
        assert_eq!(chosen(&["apt-get", "sudo"], false).unwrap(), apt.map(|command| format!("sudo {command}")));
        assert_eq!(chosen(&["dnf"], true).unwrap(), ["dnf install -y postgresql-server"]);
        assert_eq!(chosen(&["pacman"], true).unwrap(), ["pacman -Sy --noconfirm postgresql"]);
    }

    #[test]
    fn homebrew_never_runs_as_root() {
        assert_eq!(chosen(&["brew", "sudo"], false).unwrap(), ["brew install postgresql@17"]);
    }

    #[test]
    fn who_cannot_install_is_told_what_to_run() {
        let error = chosen(&["apt-get"], false).unwrap_err();
        assert!(error.contains("as root, run `apt-get update && apt-get install -y postgresql`"), "{error}");
        let error = chosen(&["sudo"], false).unwrap_err();
        assert!(error.contains("on the path") && error.contains("apt-get"), "{error}");
    }
}
