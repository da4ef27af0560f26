//! Under which account the server runs: PostgreSQL refuses to be the administrator of the machine.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use mainstay::{Error, ErrorKind, Result};

/// Where accounts are listed.
const ACCOUNTS: &str = "/etc/passwd";

/// Whom the server may be instead of the administrator, in this order.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// An account by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ids {
    user: u32,
    group: u32,
}

/// Who runs the server: ourselves, unless we are the administrator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    other: Option<Ids>,
}

impl Account {
    /// The account for a server whose data lies in a folder that this process has made.
    pub(super) fn for_owner_of(folder: &Path) -> Result<Self> {
        let owner = std::fs::metadata(folder).map_err(|cause| unreadable(folder, cause))?.uid();
        if owner != 0 {
            return Ok(Self { other: None });
        }
        let accounts = std::fs::read_to_string(ACCOUNTS).map_err(|cause| unreadable(Path::new(ACCOUNTS), cause))?;
        let other = choose(&accounts).ok_or_else(|| {
            let message =
                format!("PostgreSQL does not run as root, and {ACCOUNTS} has no {CANDIDATES:?}: add one of them");
            Error::new(ErrorKind::NotFound, message)
        })?;
        Ok(Self { other: Some(other) })
    }

    /// Gives a folder to the account.
    pub(super) fn give(self, folder: &Path) -> Result<()> {
        let Some(Ids { user, group }) = self.other else { return Ok(()) };
        chown(folder, Some(user), Some(group)).map_err(|cause| {
            let message = format!("{} cannot be given to the account of the server", folder.display());
            Error::fatal(message).with_source(cause)
        })
    }

    /// Lets a program run under the account.
    pub(super) fn run(self, command: &mut Command) -> &mut Command {
        match self.other {
            Some(Ids { user, group }) => command.uid(user).gid(group),
            None => command,
        }
    }
}

fn choose(accounts: &str) -> Option<Ids> {
    CANDIDATES.iter().find_map(|name| {
        let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map(str::parse);
        let (user, group) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        // An account with the number of the administrator would be refused as well.
        (user != 0).then_some(Ids { user, group })
    })
}

fn unreadable(path: &Path, cause: std::io::Error) -> Error {
    Error::fatal(format!("{} cannot be read", path.display())).with_source(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_the_package_is_preferred() {
        let accounts = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533::/:/no\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(choose(accounts), Some(Ids { user: 101, group: 104 }));
    }

    #[test]
    fn nobody_will_do_and_the_administrator_never() {
        let accounts = "postgres:x:0:0::/:/bin/sh\nnobody:x:65534:65533::/:/no\n";
        assert_eq!(choose(accounts), Some(Ids { user: 65534, group: 65533 }));
        assert_eq!(choose("root:x:0:0::/root:/bin/sh\npostgresql:x:7:7::/:/no\n"), None);
        assert_eq!(choose("postgres\nnobody:x:many:1"), None);
    }
}
