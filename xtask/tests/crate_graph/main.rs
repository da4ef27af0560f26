//! The crate graph of this workspace is the one that ARCHITECTURE.md draws.
//!
//! The rules are tables in `rules.rs`, and functions over a small picture of the workspace that say what breaks them;
//! the tests here hold them against what cargo knows, and against pictures that break each rule once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod picture;
mod rules;

use crate::picture::{Crate, Use, Workspace};
use crate::rules::{ROOMS, objections};

#[test]
fn the_crate_graph_follows_the_rules() {
    let objections = objections(&Workspace::load());
    assert!(objections.is_empty(), "\n{}\n", objections.join("\n"));
}

#[test]
fn the_table_of_rooms_points_down_only() {
    for (place, room) in ROOMS.iter().enumerate() {
        for used in room.may_use {
            let below = ROOMS[..place].iter().any(|room| room.name == *used);
            assert!(below, "{} may not use {used}: a room uses what stands before it in the table", room.name);
        }
    }
}

#[test]
fn a_workspace_within_the_rules_has_no_objection() {
    let workspace = workspace(&[
        ("mainstay-core", &[Use::normal("serde")]),
        ("mainstay-store", &[Use::normal("mainstay-core"), Use::normal("redb")]),
        ("mainstay-replica", &[Use::normal("mainstay-store"), Use::normal("openraft")]),
        ("mainstay-bench", &[Use::normal("redb"), Use::optional("rocksdb"), Use::optional("raft-engine")]),
    ]);
    assert_eq!(objections(&workspace), Vec::<String>::new());
}

#[test]
fn an_arrow_that_is_not_in_the_table_is_refused_for_every_kind_of_dependency() {
    for used in [Use::normal("mainstay-store"), Use::optional("mainstay-store"), Use::dev("mainstay-store")] {
        assert_objection(&workspace(&[("mainstay-core", &[used])]), &["mainstay-core", "may not use mainstay-store"]);
    }
    assert_objection(
        &workspace(&[("mainstay-runtime", &[Use::normal("mainstay-cluster")])]),
        &["mainstay-runtime may not use mainstay-cluster"],
    );
}

#[test]
fn governance_uses_the_public_api_alone() {
    for used in [Use::normal("mainstay-runtime"), Use::normal("mainstay"), Use::dev("mainstay-node")] {
        let name = used.name.clone();
        assert_objection(&workspace(&[("mainstay-governance", &[used])]), &["mainstay-governance may not use", &name]);
    }
    // Its examples are written as applications write them.
    let examples = [Use::normal("mainstay-api"), Use::dev("mainstay")];
    assert_eq!(objections(&workspace(&[("mainstay-governance", &examples)])), Vec::<String>::new());
}

#[test]
fn the_facade_has_governance_by_a_feature_alone() {
    let facade = |used| workspace(&[("mainstay", &[Use::normal("mainstay-api"), used])]);
    assert_eq!(objections(&facade(Use::optional("mainstay-governance"))), Vec::<String>::new());
    assert_objection(&facade(Use::normal("mainstay-governance")), &["mainstay-governance", "optional"]);
    // Its tests are those of the whole system.
    assert_eq!(objections(&facade(Use::dev("mainstay-store"))), Vec::<String>::new());
    assert_objection(&facade(Use::normal("mainstay-store")), &["mainstay may not use mainstay-store"]);
    assert_objection(&facade(Use::dev("mainstay-demo")), &["mainstay may not use mainstay-demo"]);
    assert_objection(&workspace(&[("mainstay-core", &[Use::dev("mainstay")])]), &["may not use mainstay"]);
}

#[test]
fn a_crate_that_is_not_in_the_table_is_told_where_to_go() {
    let workspace = workspace(&[("mainstay-utils", &[])]);
    assert_objection(&workspace, &["mainstay-utils", "xtask/tests/crate_graph/rules.rs", "ARCHITECTURE.md"]);
}

#[test]
fn a_dependency_that_has_an_owner_is_refused_elsewhere() {
    for (user, used) in [
        ("mainstay-store", Use::normal("openraft")),
        ("mainstay-sim", Use::normal("openraft-rt")),
        ("mainstay-bench", Use::dev("openraft")),
        ("mainstay-replica", Use::normal("redb")),
        ("mainstay-store", Use::optional("fjall")),
    ] {
        let name = used.name.clone();
        assert_objection(&workspace(&[(user, &[used])]), &[user, "may not use", &name]);
    }
}

#[test]
fn a_peer_that_is_slow_to_build_is_refused_unless_it_is_optional() {
    for peer in ["rocksdb", "raft-engine"] {
        assert_objection(&workspace(&[("mainstay-bench", &[Use::normal(peer)])]), &[peer, "optional"]);
    }
}

#[test]
fn a_build_tool_in_the_default_build_is_refused_with_the_way_it_came_in() {
    let mut workspace = workspace(&[("mainstay-store", &[])]);
    workspace.default_build.push(Crate { name: "bindgen".into(), uses: Vec::new() });
    workspace.default_build.push(Crate { name: "some-sys".into(), uses: vec![Use::normal("bindgen")] });
    assert_objection(&workspace, &["bindgen", "some-sys", "default build"]);
}

fn workspace(members: &[(&str, &[Use])]) -> Workspace {
    let member = |(name, uses): &(&str, &[Use])| Crate { name: (*name).to_owned(), uses: uses.to_vec() };
    Workspace { members: members.iter().map(member).collect(), default_build: Vec::new() }
}

fn assert_objection(workspace: &Workspace, parts: &[&str]) {
    let objections = objections(workspace);
    assert_eq!(objections.len(), 1, "{objections:?}");
    for part in parts {
        assert!(objections[0].contains(part), "{:?} does not say {part:?}", objections[0]);
    }
}
