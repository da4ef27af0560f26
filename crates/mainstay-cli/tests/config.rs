//! The `mainstay config` command, as a process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use mainstay::prelude::*;

#[interface]
trait Nothing {
    async fn nothing(&self) -> Result<()>;
}

#[derive(Service)]
#[service(implements(Nothing), name = "things", partitions = uniform(4), persistence = "volatile")]
struct Things {}

impl Nothing for Things {
    async fn nothing(&self) -> Result<()> {
        Ok(())
    }
}

fn mainstay(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
    command.current_dir(folder).args(arguments).env("MAINSTAY_DEFAULTS_MAILBOX", "77");
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn complaint(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The line of a key, its blanks made one.
fn line(text: &str, key: &str) -> String {
    let found = text.lines().find(|line| line.split(' ').next() == Some(key));
    found.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_value_is_shown_with_its_origin() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let output = mainstay(here, &["config", "show"]);
    assert_eq!(line(&out(&output), "defaults.replicas.min"), "defaults.replicas.min = 2 # default; 1 on one node");
    let output = mainstay(here, &["config", "print"]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert!(out(&output).starts_with("# settings without a configuration file\n"), "{}", out(&output));
    assert_eq!(line(&out(&output), "data_dir"), "data_dir = \"data\" # default");
    assert_eq!(
        line(&out(&output), "defaults.mailbox"),
        "defaults.mailbox = 77 # environment MAINSTAY_DEFAULTS_MAILBOX"
    );
    assert_eq!(complaint(&output), "data holds no data yet: nothing is recorded\n");
    assert!(!here.join("data").exists(), "to look is not to create");

    std::fs::write(here.join("mainstay.toml"), "data_dir = \"store\"\n[services.things]\npartitions = 4\n").unwrap();
    let node = Node::builder().isolated().data_dir(here.join("store")).service::<Things>().start().await.unwrap();
    let output = mainstay(here, &["config", "print"]);
    assert!(output.status.success());
    assert_eq!(line(&out(&output), "data_dir"), "data_dir = \"store\" # mainstay.toml:1");
    assert_eq!(complaint(&output), "a node is using store: what is recorded is not shown\n");
    node.stop().await;

    let output = mainstay(here, &["config", "print"]);
    assert!(output.status.success(), "{}", complaint(&output));
    let shown = out(&output);
    assert_eq!(line(&shown, "services.things.partitions"), "services.things.partitions = 4 # mainstay.toml:3");
    assert!(shown.contains("= 4") && shown.contains("# recorded in the data folder"), "{shown}");
    assert_eq!(
        line(&shown, "services.things.persistence"),
        "services.things.persistence = \"volatile\" # recorded in the data folder"
    );
    assert_eq!(complaint(&output), "");
    let output = mainstay(here, &["config", "check"]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert!(out(&output).starts_with("mainstay.toml: all is well"), "{}", out(&output));

    std::fs::write(here.join("other.toml"), "[services.things]\npartitions = 5\n").unwrap();
    let arguments = ["--config", "other.toml", "--data-dir", "store"];
    let output = mainstay(here, &[&["config", "check"], &arguments[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complaint(&output).contains("services.things.partitions is 4 in the data folder and 5 by other.toml:2"),
        "{}",
        complaint(&output)
    );
    let output = mainstay(here, &[&["config", "print", "--json"], &arguments[..]].concat());
    assert!(output.status.success());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["file"], "other.toml");
    assert_eq!(json["settings"][0]["value"], "store");
    assert_eq!(json["settings"][0]["origin"]["kind"], "command line");
    assert_eq!(json["remarks"].as_array().unwrap().len(), 1);
}

#[test]
fn mistakes_are_said_and_fail() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mainstay.toml"), "data_dri = \"x\"\n[defaults]\nmailbox = 0\n").unwrap();
    for command in ["print", "check"] {
        let output = mainstay(folder.path(), &["config", command]);
        assert_eq!(output.status.code(), Some(1));
        let said = complaint(&output);
        assert!(said.contains("mainstay.toml:1: unknown key \"data_dri\": did you mean \"data_dir\"?"), "{said}");
        assert!(said.contains("mainstay.toml:3: defaults.mailbox is 0"), "{said}");
        assert_eq!(out(&output), "");
    }
    let output = mainstay(folder.path(), &["config", "check", "--config", "missing.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint(&output).contains("missing.toml"), "{}", complaint(&output));
    let output = mainstay(folder.path(), &["config", "prnt"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_configuration_that_no_node_can_start_with_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a_file"), "x").unwrap();
    for (file, expected) in [
        (
            "data_dir = \"a_file\"",
            "data_dir a_file is a file, or below one, and a node needs a folder: set data_dir to",
        ),
        ("data_dir = \"a_file/below\"", "data_dir a_file/below is a file, or below one"),
        ("[defaults]\nidle_timeout = \"1min\"\nidle_scan = \"2min\"", "idle_scan is 120s and idle_timeout is 60s"),
    ] {
        std::fs::write(folder.path().join("mainstay.toml"), file).unwrap();
        let output = mainstay(folder.path(), &["config", "check"]);
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert!(complaint(&output).contains(expected), "{file}: {}", complaint(&output));
        assert_eq!(out(&output), "", "{file}");
    }
}

#[test]
fn the_help_has_examples_and_says_who_knows_what() {
    let folder = tempfile::tempdir().unwrap();
    let output = mainstay(folder.path(), &["config", "print", "--help"]);
    let help = out(&output);
    assert!(help.contains("mainstay config print --data-dir data --json"), "{help}");
    assert!(help.contains("print_config()"), "{help}");
}

/// The command knows what can be set of governance, whatever the program calls its pools.
#[test]
fn settings_of_governance_are_checked_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mainstay.toml");
    for (text, expected) in [
        (
            "[governance.pools.db]\ninitial_size = 0",
            "mainstay.toml:2: governance.pools.db.initial_size is 0: give a whole",
        ),
        ("[governance.pools.db]\nsize = 4", "unknown key \"governance.pools.db.size\""),
        ("[governance.pols.db]\nsize = 4", "this program has no section \"governance.pols.db.size\""),
        (
            "[governance.caches.prices]\nfresh_for = \"5s\"\nrefresh_ahead = \"8s\"",
            "mainstay.toml:3: governance.caches.prices: refresh_ahead of the cache is 8s and fresh_for is 5s",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = mainstay(folder.path(), &["config", "check"]);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(complaint(&output).contains(expected), "{text}: {}", complaint(&output));
    }

    // What the code of a cache says is not known here, nor what is in the section of an application.
    std::fs::write(&file, "[governance.caches.prices]\nfresh_for = \"5s\"\n[kitchen]\nheat = 3").unwrap();
    let output = mainstay(folder.path(), &["config", "check"]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert!(complaint(&output).contains("[kitchen] is not known here and was not checked"), "{}", complaint(&output));
    let printed = out(&mainstay(folder.path(), &["config", "print"]));
    let key = "governance.caches.prices.fresh_for";
    assert_eq!(line(&printed, key), format!("{key} = \"5s\" # mainstay.toml:2"));
}
