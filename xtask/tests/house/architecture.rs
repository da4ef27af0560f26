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
    objections.extend(methods(&text).into_iter().filter(|(of, method)| !is_method(tree, of, method)).map(
        |(of, method)| format!("{document} names `{of}::{method}`, and no source that has `{of}` has such a function"),
    ));
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

/// The functions of types that a page names, also in drawings: `Slot` and `admit` of `Slot::admit`. The names of the reader's own
/// proxies end with `Ref`.
fn methods(text: &str) -> Vec<(&str, &str)> {
    let names = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let pairs = names.filter_map(|name| name.split_once("::"));
    let is_type = |name: &str| name.starts_with(char::is_uppercase) && !name.ends_with("Ref");
    pairs.filter(|(of, method)| is_type(of) && method.starts_with(char::is_lowercase)).collect()
}

/// True if a source that declares a type, or implements something for it, has a function of that name.
fn is_method(tree: &Tree, of: &str, method: &str) -> bool {
    let function = format!("fn {method}");
    let begins = ["struct ", "enum ", "trait ", "impl ", "impl<"];
    tree.texts().filter(|(path, _)| path.ends_with(".rs")).any(|(_, text)| {
        text.lines().any(|line| begins.iter().any(|begin| line.contains(begin)) && words(line).any(|word| word == of))
            && text.lines().any(|line| {
                let after = line.split_once(&function).map(|(_, after)| after);
                after.is_some_and(|after| after.starts_with(['(', '<']))
            })
    })
}

#[test]
fn methods_are_found_in_text_and_drawings() {
    let text = "The `Slot::enter`.\n```text\n 1 admit   Slot::admit → x::y\n```\n`CounterRef::add`, `Route::Local`";
    assert_eq!(methods(text), [("Slot", "enter"), ("Slot", "admit")]);
}

#[test]
fn symbols_are_names_in_code_type() {
    let text = "The `Slot::enter` of `a/b.rs`, `x = 1` and\n```text\n`Drawn`\n```\nof `Gate`.";
    assert_eq!(symbols(text), ["Slot", "enter", "Gate"]);
}
