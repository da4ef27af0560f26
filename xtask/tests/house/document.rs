//! What documents refer to.

use std::path::Path;

use crate::tree::Tree;

/// Links and paths in documents that lead to nothing.
pub(crate) fn dead_references(tree: &Tree) -> Vec<String> {
    let roots: Vec<_> = tree.texts().map(|(path, _)| path.split('/').next().unwrap_or(path)).collect();
    let mut dead = Vec::new();
    for (document, text) in tree.documents() {
        let folder = Path::new(document).parent().and_then(Path::to_str).unwrap_or_default();
        let links = links(text).into_iter().map(|link| (link, join(folder, link)));
        let paths = paths(text, &roots).into_iter().map(|path| (path, path.to_owned()));
        let missing = links.chain(paths).filter(|(_, target)| !tree.has(target));
        dead.extend(missing.map(|(written, _)| format!("{document} refers to {written}, which does not exist")));
    }
    dead
}

/// Crates that a document does not mention.
pub(crate) fn crates_without_mention(tree: &Tree, document: &str) -> Vec<String> {
    let text = tree.text(document);
    let mentions = |name: &String| text.contains(&format!("`{name}`"));
    let crates = tree.folders("crates").into_iter().filter(|name| !mentions(name));
    crates.map(|name| format!("{document} does not mention `{name}`: say what it holds and what it may use")).collect()
}

/// Decisions that their list does not link to.
pub(crate) fn unlisted_decisions(tree: &Tree) -> Vec<String> {
    const FOLDER: &str = "docs/decisions/";
    let list = format!("{FOLDER}README.md");
    let text = tree.text(&list);
    let listed = links(&text);
    let decisions = tree.documents().filter_map(|(path, _)| path.strip_prefix(FOLDER));
    let unlisted = decisions.filter(|name| *name != "README.md" && !listed.contains(name));
    unlisted.map(|name| format!("{list} does not link to {name}")).collect()
}

/// The targets of links within the repository, without their anchors.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.split('#').next().unwrap_or(target));
    targets.filter(|target| !target.is_empty() && !target.contains("://")).collect()
}

/// Words in code type that are paths from the root of the repository: they start with something that is there.
fn paths<'t>(text: &'t str, roots: &[&str]) -> Vec<&'t str> {
    let code = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |word: &&str| {
        let first = word.split_once('/').map(|(first, _)| first);
        // `NNNN`, `<name>` and `…` stand for something else.
        let is_pattern = word.contains(['*', '<', '…', ' ', '{']) || word.contains("NNNN");
        first.is_some_and(|first| roots.contains(&first)) && !is_pattern
    };
    code.filter(is_path).collect()
}

fn join(folder: &str, link: &str) -> String {
    if folder.is_empty() { link.to_owned() } else { format!("{folder}/{link}") }
}

#[test]
fn links_are_found_without_anchors_and_foreign_addresses() {
    let text = "see [a](docs/a.md#part), [b](#here), [c](https://example.com/x) and [d](../d.md).";
    assert_eq!(links(text), ["docs/a.md", "../d.md"]);
}

#[test]
fn paths_are_found_where_they_start_with_something_that_exists() {
    let text = "`docs/a.md`, `docs/NNNN-b.md`, `crates/<name>/c`, `either/or`, docs/plain\nand `a` `docs/d`";
    assert_eq!(paths(text, &["docs", "crates"]), ["docs/a.md", "docs/d"]);
}
