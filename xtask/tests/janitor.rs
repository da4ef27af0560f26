//! What a run of `cargo xtask chaos` has made is gone when the run is, however that ended: its janitor sees to it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Stdio};

fn succeeds(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let status = Command::new(words.next().unwrap()).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn a_janitor_cleans_up_when_the_run_is_gone_and_not_before() {
    // The id of a run that was killed: no process has it.
    let owner = 3_999_998_000 + std::process::id() % 1_000;
    let target = tempfile::tempdir().unwrap();
    let folder = target.path().join(format!("chaos/run-{owner}"));
    let disk = folder.join("node-1");
    std::fs::create_dir_all(&disk).unwrap();
    let namespace = format!("mainstay-chaos-{owner}-1");
    let is_root = succeeds(&format!("ip netns add {namespace}"));
    if is_root {
        assert!(succeeds(&format!("mount -t tmpfs -o size=1m mainstay-chaos {}", disk.display())));
    } else {
        println!("NOT SHOWN: that a janitor removes namespaces and mounts: only root may have them");
    }
    // It is called what the application is called, and has a path of the run among its arguments.
    let program = target.path().join("mainstay-chaos");
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let mut node = Command::new(&program);
    // It waits for a line that never comes.
    let node = node.args(["-c", "read line"]).arg(folder.join("node-1/node")).stdin(Stdio::piped());
    let mut node = node.spawn().unwrap();

    let mut janitor = Command::new(env!("CARGO_BIN_EXE_xtask"));
    janitor.args(["chaos", "--janitor", &owner.to_string()]).env("CARGO_TARGET_DIR", target.path());
    let mut janitor = janitor.stdin(Stdio::piped()).spawn().unwrap();
    assert!(folder.exists() && node.try_wait().unwrap().is_none(), "the run is not over");

    // The run is gone: so is its end of the pipe.
    drop(janitor.stdin.take());
    assert!(janitor.wait().unwrap().success());
    // `wait` would end the input, and with it the process.
    while node.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(node.wait().unwrap().code(), None, "it was killed");
    assert!(!folder.exists());
    if is_root {
        assert!(!Path::new("/run/netns").join(&namespace).exists());
    }
}
