//! What ARCHITECTURE.md and the page behind it name is in the code.

use std::collections::BTreeSet;

use crate::tree::Tree;

/// How long a page may be that everybody reads first.
const WORDS_MAX: usize = 2_500;

/// The parts of names in code type, such as `Slot` and `enter` of `Slot::enter`, that no source has, and a page that is too long.
pub(crate) fn objections(tree: &Tree, document: &str) -> Vec<String> {
    let text = tree.text(document);
    let known: BTreeSet<&str> = tree
        .texts()
        .filter(|(path, _)| path.ends_with(".rs"))
        .flat_map(|(path, text)| words(text).chain(words(path)))
        .collect();
    let mut objections: Vec<String> = symbols(&text)
        .into_iter()
        .filter(|symbol| !known.contains(symbol))
        .map(|symbol| format!("{document} names `{symbol}`, which is in no source"))
        .collect();
    let length = text.split_whitespace().count();
    if length > WORDS_MAX {
        objections.push(format!("{document} has {length} words: at most {WORDS_MAX} are read"));
    }
    objections
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The parts of what looks like the name of a symbol: `Type`, `Type::function`, `module::function`, `function`.
fn symbols(text: &str) -> Vec<&str> {
    let outside = text.split("```").step_by(2);
    let code = outside.flat_map(|part| part.split('`').skip(1).step_by(2));
    let names = code.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':'));
    names.flat_map(words).collect()
}

#[test]
fn symbols_are_names_in_code_type() {
    let text = "The `Slot::enter` of `a/b.rs`, `x = 1` and\n```text\n`Drawn`\n```\nof `Gate`.";
    assert_eq!(symbols(text), ["Slot", "enter", "Gate"]);
}
