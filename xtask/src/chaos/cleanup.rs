//! What a run has made is removed, however it ends: by itself, by Ctrl-C, by a panic, or killed.
//!
//! Each run has a janitor: a process of its own group, which a Ctrl-C does not reach. It waits until its input ends, which is
//! when the run is gone, for whatever reason. What even that leaves behind, because both were killed, is removed by the next run.
//! Everything is found by the id of the process that made it, which is part of all names.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::namespaces::PREFIX;
use super::shell::say;
use crate::command::{Outcome, target_dir};

/// What the folder of a run is called while it lasts.
const RUN: &str = "run-";

/// Where the system has its namespaces by name.
const NAMESPACES: &str = "/run/netns";

/// The folder of all runs.
pub(super) fn folder() -> PathBuf {
    target_dir().join("chaos")
}

/// The folder of the run of a process.
pub(super) fn run_folder(owner: u32) -> PathBuf {
    folder().join(format!("{RUN}{owner}"))
}

/// A process that cleans up when this one is gone.
#[derive(Debug)]
pub(super) struct Janitor {
    child: Child,
}

impl Janitor {
    /// Starts one for this process.
    pub(super) fn start() -> Outcome<Self> {
        let program = std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
        let mut command = Command::new(program);
        command.args(["chaos", "--janitor", &std::process::id().to_string()]).stdin(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(|error| format!("no process can be started that cleans up: {error}"))?;
        Ok(Self { child })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        // Its input ends, and it looks once more. It says by itself what it could not do.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What a janitor does.
pub(super) fn wait_and_clean(owner: u32) -> Outcome {
    // Its end is the message.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    clean(owner)
}

/// Removes what runs have left that are gone.
pub(super) fn clean_leftovers() -> Outcome {
    let namespaces = say("ip netns list").unwrap_or_default();
    let folders: Vec<String> = std::fs::read_dir(folder())
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    for owner in owners(&namespaces, &folders).into_iter().filter(|owner| !is_running(*owner)) {
        println!("removing what the run of process {owner} has left");
        clean(owner)?;
    }
    Ok(())
}

/// Removes what the run of a process has made: its processes, its mounts, its namespaces, its folder.
pub(super) fn clean(owner: u32) -> Outcome {
    let folder = run_folder(owner);
    for process in processes_of(&folder) {
        // It may have ended by now.
        let _ = say(&format!("kill -KILL {process}"));
    }
    for name in say("ip netns list").unwrap_or_default().lines().filter_map(|line| line.split_whitespace().next()) {
        if name.starts_with(&format!("{PREFIX}{owner}-")) {
            for process in say(&format!("ip netns pids {name}")).unwrap_or_default().split_whitespace() {
                let _ = say(&format!("kill -KILL {process}"));
            }
            gone(say(&format!("ip netns del {name}")), || !Path::new(NAMESPACES).join(name).exists())?;
        }
    }
    let mounts = || mounts_below(&std::fs::read_to_string("/proc/self/mounts").unwrap_or_default(), &folder);
    for mount in mounts() {
        gone(say(&format!("umount -l {mount}")), || !mounts().contains(&mount))?;
    }
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{} cannot be removed: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Two may clean up at once, a janitor and the next run: what the other has removed is as good as removed.
fn gone(removed: Outcome<String>, is_gone: impl FnOnce() -> bool) -> Outcome {
    match removed {
        Err(cause) if !is_gone() => Err(cause),
        _ => Ok(()),
    }
}

/// The processes whose runs have namespaces or folders, by the names of those.
fn owners(namespaces: &str, folders: &[String]) -> BTreeSet<u32> {
    let of_namespace = |line: &str| line.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok();
    let of_folder = |name: &String| name.strip_prefix(RUN)?.parse().ok();
    namespaces.lines().filter_map(of_namespace).chain(folders.iter().filter_map(of_folder)).collect()
}

/// True if there is a process of this id that is a run, or the tests of one.
fn is_running(owner: u32) -> bool {
    let command = std::fs::read(format!("/proc/{owner}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains("xtask")
}

/// The mounts below a folder, by the system's table of them.
fn mounts_below(table: &str, folder: &Path) -> Vec<String> {
    let places = table.lines().filter_map(|line| line.split(' ').nth(1));
    places.filter(|place| Path::new(place).starts_with(folder)).map(str::to_owned).collect()
}

/// The processes that were started with a path below the folder of a run.
fn processes_of(folder: &Path) -> Vec<u32> {
    let folder = format!("{}/", folder.display());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    numbers
        .filter(|process: &u32| {
            let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            *process != std::process::id() && is_ours(&String::from_utf8_lossy(&command), &folder)
        })
        .collect()
}

/// True for the command line of a process of the application that has a path below a folder.
fn is_ours(command: &str, folder: &str) -> bool {
    let mut words = command.split('\0');
    let is_application = words.next().is_some_and(|program| program.ends_with("mainstay-chaos"));
    is_application && words.any(|word| word.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_what_they_have_left() {
        let namespaces =
            format!("{PREFIX}12-1 (id: 3)\n{PREFIX}12-switch\nanother\n{PREFIX}x-1\n{PREFIX}7-2 (id: 1)\n");
        let folders = ["run-9".to_owned(), "kept-1".to_owned(), "run-x".to_owned()];
        assert_eq!(owners(&namespaces, &folders).into_iter().collect::<Vec<_>>(), [7, 9, 12]);
    }

    #[test]
    fn only_mounts_and_processes_of_the_run_are_ours() {
        let table = "tmpfs /a/run-1/node-1 tmpfs rw 0 0\ntmpfs /a/run-12/node-1 tmpfs rw 0 0\ntmpfs / tmpfs rw 0 0\n";
        assert_eq!(mounts_below(table, Path::new("/a/run-1")), ["/a/run-1/node-1"]);
        assert!(is_ours("/b/mainstay-chaos\0node\0--data-dir\0/a/run-1/node-1/node", "/a/run-1/"));
        assert!(!is_ours("/b/mainstay-chaos\0node\0--data-dir\0/a/run-12/node-1/node", "/a/run-1/"));
        assert!(!is_ours("less\0/a/run-1/node-1.log", "/a/run-1/"));
    }

    #[test]
    fn a_process_that_is_gone_is_no_run() {
        assert!(is_running(std::process::id()));
        assert!(!is_running(u32::MAX));
    }

    #[test]
    fn what_a_killed_run_has_left_is_removed() {
        // An id that no process has.
        let owner = 3_999_999_000 + std::process::id() % 1_000;
        let folder = run_folder(owner);
        std::fs::create_dir_all(folder.join("node-1")).unwrap();
        let is_root = super::super::needs::is_root();
        if is_root {
            say(&format!("ip netns add {PREFIX}{owner}-1")).unwrap();
            say(&format!("mount -t tmpfs -o size=1m mainstay-chaos {}/node-1", folder.display())).unwrap();
        } else {
            println!("NOT SHOWN: that namespaces and mounts of a killed run are removed: only root may have them");
        }
        clean_leftovers().unwrap();
        assert!(!folder.exists());
        if is_root {
            assert!(!say("ip netns list").unwrap().contains(&format!("{PREFIX}{owner}-")));
        }
    }
}
