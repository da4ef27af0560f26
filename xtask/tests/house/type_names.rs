//! Names of types: none twice in the public interface of a crate, and no name that says nothing outside of its file.

use std::collections::BTreeMap;

use crate::tree::Tree;

/// The words that begin the declaration of a type.
const DECLARES: &[&str] = &["struct ", "enum ", "trait ", "type ", "union "];

/// Names that say nothing to a reader who does not see their file.
const EMPTY_NAMES: &[&str] =
    &["Place", "Inner", "Shared", "Entry", "Running", "Outcome", "Waiter", "Ticket", "Answer", "Claim"];

/// The crates that keep such names private to one file.
const WITHOUT_EMPTY_NAMES: &[&str] = &["mainstay-api", "mainstay-governance", "mainstay-store", "mainstay-wire"];

/// Where such a name is the field's own word for what is meant, and so is public.
const WORDS_OF_THE_FIELD: &[(&str, &str)] = &[
    // The right to write a thing outside, as a resource remembers it.
    ("mainstay-governance", "Claim"),
    // What a caller shows to be let in, which a call carries to another process.
    ("mainstay-governance", "Ticket"),
];

/// Every objection to the names of types in the crates.
pub(crate) fn objections(tree: &Tree) -> Vec<String> {
    tree.folders("crates").iter().flat_map(|name| objections_to(name, &sources(tree, name))).collect()
}

/// The sources of a crate without its tests.
fn sources<'t>(tree: &'t Tree, name: &str) -> Vec<(&'t str, &'t str)> {
    let folder = format!("crates/{name}/src/");
    let is_source = |path: &str| path.starts_with(&folder) && path.ends_with(".rs") && !path.contains("/tests");
    tree.texts().filter(|(path, _)| is_source(path)).collect()
}

fn objections_to(name: &str, sources: &[(&str, &str)]) -> Vec<String> {
    let mut public: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut objections = Vec::new();
    for (path, text) in sources {
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("pub ").and_then(declared) {
                public.entry(declared).or_default().push(path);
            }
            let visible =
                line.trim_start().strip_prefix("pub").map(|rest| rest.split_once(") ").map_or(rest, |(_, it)| it));
            if let Some(declared) = visible.map(str::trim_start).and_then(declared)
                && WITHOUT_EMPTY_NAMES.contains(&name)
                && EMPTY_NAMES.contains(&declared)
                && !WORDS_OF_THE_FIELD.contains(&(name, declared))
            {
                objections
                    .push(format!("{path}: `{declared}` says nothing outside of its file, give it a name that does"));
            }
        }
    }
    let twice = public.into_iter().filter(|(_, paths)| paths.len() > 1);
    objections
        .extend(twice.map(|(declared, paths)| format!("{name}: two public types `{declared}`: {}", paths.join(", "))));
    objections
}

/// The name of the type that a line declares, without what stands before its declaration.
fn declared(line: &str) -> Option<&str> {
    let rest = DECLARES.iter().find_map(|word| line.strip_prefix(word))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

#[test]
fn a_public_name_that_is_there_twice_is_found() {
    let sources =
        [("a.rs", "pub struct Grant {\n}\n"), ("b.rs", "pub enum Grant<T> {}"), ("c.rs", "pub trait Held: Sized {}")];
    let found = objections_to("mainstay-core", &sources);
    assert_eq!(found, ["mainstay-core: two public types `Grant`: a.rs, b.rs"]);
    assert!(objections_to("mainstay-core", &[("a.rs", "pub struct Grant;"), ("b.rs", "struct Grant;")]).is_empty());
}

#[test]
fn an_empty_name_that_leaves_its_file_is_found() {
    for text in ["pub(super) struct Shared {", "    pub(crate) enum Waiter<T> {", "pub type Place = u8;"] {
        assert_eq!(objections_to("mainstay-wire", &[("a.rs", text)]).len(), 1, "{text}");
        assert!(objections_to("mainstay-core", &[("a.rs", text)]).is_empty(), "{text}");
    }
    for text in ["struct Shared {", "pub(super) struct SharedLog;", "pub(crate) fn place() {"] {
        assert!(objections_to("mainstay-wire", &[("a.rs", text)]).is_empty(), "{text}");
    }
}
