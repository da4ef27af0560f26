//! The programs that faults need, found or installed.

use std::path::PathBuf;

use super::shell::say;
use crate::command::{Outcome, program, run};

/// Folders of programs for administrators, which are not on everyone's path.
const ADMIN_FOLDERS: &[&str] = &["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// How packages are installed, by the manager that is there, and what the package of `ip` and `tc` is called there.
const MANAGERS: &[(&str, &[&str], &str)] = &[
    ("apt-get", &["install", "-y"], "iproute2"),
    ("dnf", &["install", "-y"], "iproute"),
    ("pacman", &["-Sy", "--noconfirm"], "iproute2"),
    ("zypper", &["-n", "install"], "iproute2"),
    ("apk", &["add"], "iproute2"),
];

/// True if we are the administrator, and so may have namespaces and mounts.
pub(super) fn is_root() -> bool {
    say("id -u").is_ok_and(|id| id.trim() == "0")
}

/// Makes sure that `ip` and `tc` are there.
pub(super) fn need_iproute() -> Outcome {
    need("ip", None)?;
    need("tc", None)
}

/// Makes sure that `nft` is there.
pub(super) fn need_nft() -> Outcome {
    need("nft", Some("nftables"))
}

fn need(name: &str, package: Option<&str>) -> Outcome {
    if is_there(name) {
        return Ok(());
    }
    let Some((manager, words, iproute)) = MANAGERS.iter().find(|(manager, ..)| is_there(manager)) else {
        return Err(format!("`{name}` is not installed, and no package manager is known here: install it by hand"));
    };
    let package = package.unwrap_or(iproute);
    println!("`{name}` is not there: running `{manager} {} {package}`", words.join(" "));
    let by_hand = |cause| format!("{cause}; install the package {package} by hand");
    if *manager == "apt-get" {
        run(program(manager).arg("update")).map_err(by_hand)?;
    }
    run(program(manager).args(*words).arg(package).env("DEBIAN_FRONTEND", "noninteractive")).map_err(by_hand)?;
    if is_there(name) { Ok(()) } else { Err(format!("{package} was installed, but `{name}` is not found")) }
}

fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let admin = ADMIN_FOLDERS.iter().map(PathBuf::from);
    std::env::split_paths(&path).chain(admin).any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_installed() {
        assert!(is_there("sh") && !is_there("no-such-program-anywhere"));
        assert_eq!(need("sh", None), Ok(()));
    }
}
