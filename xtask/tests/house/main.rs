//! The documents, the manifests and the settings of this repository agree with each other.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod architecture;
mod causes;
mod conformance;
mod deny;
mod document;
mod machine;
mod manifest;
mod time_limit;
mod tree;
mod type_names;

use crate::tree::Tree;

#[test]
fn every_link_and_path_in_a_document_leads_somewhere() {
    assert_none(document::dead_references(&Tree::load()));
}

#[test]
fn the_architecture_names_every_crate() {
    assert_none(document::crates_without_mention(&Tree::load(), "ARCHITECTURE.md"));
}

#[test]
fn the_architecture_is_short_and_names_what_exists() {
    let tree = Tree::load();
    assert_none(architecture::objections(&tree, "ARCHITECTURE.md"));
    assert_none(architecture::objections(&tree, "docs/internals/call-path.md"));
}

#[test]
fn the_list_of_decisions_is_complete() {
    assert_none(document::unlisted_decisions(&Tree::load()));
}

#[test]
fn every_row_of_the_conformance_tables_names_tests_that_exist() {
    let tree = Tree::load();
    assert_none(conformance::objections(&tree, &tree.text("docs/conformance.md")));
}

#[test]
fn continuous_integration_runs_what_the_readme_tells_a_person_to_run() {
    let tree = Tree::load();
    assert!(tree.text("README.md").contains("cargo xtask check"));
    assert!(tree.text(".ci/run").lines().any(|line| line.ends_with("cargo xtask check")));
    assert!(tree.text(".cargo/config.toml").contains("xtask = "));
}

#[test]
fn the_oldest_rust_is_the_one_that_the_documents_name() {
    let tree = Tree::load();
    let manifest: toml::Table = tree.text("Cargo.toml").parse().unwrap();
    let oldest = manifest["workspace"]["package"]["rust-version"].as_str().unwrap().to_owned();
    for document in ["README.md", "CONTRIBUTING.md"] {
        assert!(
            tree.text(document).contains(&format!("({oldest} or later)")),
            "{document} does not name Rust {oldest}"
        );
    }
}

#[test]
fn a_test_that_hangs_is_ended() {
    assert_none(time_limit::endless(&Tree::load().text(".config/nextest.toml")));
}

#[test]
fn every_manifest_is_complete() {
    assert_none(manifest::omissions());
}

#[test]
fn every_exception_of_the_dependency_rules_has_a_reason() {
    assert_none(deny::exceptions_without_reason(&Tree::load().text("deny.toml")));
}

#[test]
fn no_file_names_a_path_of_the_machine_it_was_written_on() {
    assert_none(Tree::load().texts().flat_map(|(path, text)| machine::paths(path, text)).collect());
}

#[test]
fn no_error_says_its_cause_twice() {
    let tree = Tree::load();
    let sources =
        tree.texts().filter(|(path, _)| path.starts_with("crates/") && path.ends_with(".rs") && path.contains("/src/"));
    assert_none(sources.flat_map(|(path, text)| causes::repeated(path, text)).collect());
}

#[test]
fn every_type_has_a_name_of_its_own_that_says_something() {
    assert_none(type_names::objections(&Tree::load()));
}

fn assert_none(objections: Vec<String>) {
    assert!(objections.is_empty(), "\n{}\n", objections.join("\n"));
}
