//! The tests that the conformance tables name.

use crate::tree::Tree;

/// What stands in the column of ours where there is nothing to test.
const ABSENT: &str = "does not exist";

/// Rows without a test, and tests that are not there.
///
/// A test is named as `folder/file.rs::name`: the end of a path that belongs to one file alone, and a function with a test
/// attribute in it.
pub(crate) fn objections(tree: &Tree, document: &str) -> Vec<String> {
    let rows = rows(document);
    assert!(!rows.is_empty(), "there is no table with a last column named `test`");
    rows.iter().flat_map(|row| objections_to(tree, row)).collect()
}

fn objections_to(tree: &Tree, row: &Row<'_>) -> Vec<String> {
    let tests = names(row.tests);
    if tests.is_empty() {
        let is_absent = row.ours.to_lowercase().contains(ABSENT);
        let complaint =
            format!("{:?} names no test: add one, or say in the column before that it {ABSENT}", row.feature);
        return if is_absent { Vec::new() } else { vec![complaint] };
    }
    let missing = tests.into_iter().filter_map(|(file, name)| match sources(tree, file)[..] {
        [] => Some(format!("{:?} names {file}, which does not exist", row.feature)),
        [text] => match attributes(text, name) {
            None => Some(format!("{:?} names the test {name}, which is not in {file}", row.feature)),
            Some(attributes) => refused(&attributes)
                .map(|why| format!("{:?} names the test {name} in {file}, which {why}: it shows nothing", row.feature)),
        },
        _ => Some(format!("{:?} names {file}, of which there are several: give more of its path", row.feature)),
    });
    missing.collect()
}

/// A row of a table whose last column is named `test`.
struct Row<'t> {
    feature: &'t str,
    ours: &'t str,
    tests: &'t str,
}

fn rows(document: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let mut is_inside = false;
    for line in document.lines() {
        let cells: Vec<_> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        is_inside = line.starts_with('|') && (is_inside || cells.last() == Some(&"test"));
        let is_head = cells.last() == Some(&"test") || line.starts_with("|-");
        if let [feature, .., ours, tests] = cells[..]
            && is_inside
            && !is_head
        {
            rows.push(Row { feature, ours, tests });
        }
    }
    rows
}

/// The files and names of the tests in a cell.
fn names(cell: &str) -> Vec<(&str, &str)> {
    cell.split('`').skip(1).step_by(2).filter_map(|code| code.rsplit_once("::")).collect()
}

/// The sources whose path ends like this.
fn sources<'t>(tree: &'t Tree, file: &str) -> Vec<&'t str> {
    let end = format!("/{file}");
    tree.texts().filter(|(path, _)| path.ends_with(&end)).map(|(_, text)| text).collect()
}

/// The attributes of the test of that name, if a source has one: a function below a test attribute.
fn attributes<'t>(text: &'t str, name: &str) -> Option<Vec<&'t str>> {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let is_function = |line: &str| {
        let signature = line.strip_prefix("async ").unwrap_or(line);
        signature.strip_prefix("fn ").and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('('))
    };
    let functions = lines.iter().enumerate().filter(|(_, line)| is_function(line));
    let mut attributed = functions.map(|(at, _)| {
        // Comments may stand between them.
        let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        above.copied().filter(|line| line.starts_with("#[")).collect::<Vec<_>>()
    });
    attributed.find(|attributes| {
        attributes.iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

/// Why a test with these attributes does not run.
fn refused(attributes: &[&str]) -> Option<&'static str> {
    let has = |start: &str| attributes.iter().any(|line| line.replace(' ', "").contains(start));
    if has("#[ignore") || has(",ignore)") || has(",ignore=") {
        Some("is ignored")
    } else if has("#[cfg(") {
        Some("is not always compiled")
    } else {
        None
    }
}

#[test]
fn rows_are_those_of_tables_with_tests() {
    let document = "\
| a | b |\n|---|---|\n| no | table of ours |\n\n\
| feature | the original | ours | test |\n|---|---|---|---|\n| ids | three | three | `a.rs::x` |\n\nText | with bars | of its | own\n";
    let found: Vec<_> = rows(document).iter().map(|row| (row.feature, row.ours, row.tests)).collect();
    assert_eq!(found, [("ids", "three", "`a.rs::x`")]);
}

#[test]
fn tests_are_named_in_code_type() {
    assert_eq!(names("`a/b.rs::x`, `c.rs::y` and `State`"), [("a/b.rs", "x"), ("c.rs", "y")]);
    assert_eq!(names("see above"), []);
}

#[test]
fn a_test_is_a_function_below_a_test_attribute() {
    let text = "#[tokio::test(start_paused = true)]\nasync fn one() {}\n\n#[test]\n#[should_panic]\nfn two() {}\n\nfn three() {}\n";
    let has_test = |name| attributes(text, name).is_some();
    assert!(has_test("one") && has_test("two"));
    assert!(!has_test("three") && !has_test("on") && !has_test("four"));
}

#[test]
fn a_test_that_does_not_run_shows_nothing() {
    let is_refused = |attribute: &str| {
        let text = format!("#[test]\n/// Why.\n{attribute}\nfn one() {{}}\n");
        refused(&attributes(&text, "one").unwrap()).is_some()
    };
    assert!(is_refused("#[ignore]"));
    assert!(is_refused("#[ignore = \"too slow\"]"));
    assert!(is_refused("#[cfg_attr(not(unix), ignore)]"));
    assert!(is_refused("#[cfg_attr(debug_assertions, ignore = \"slow\")]"));
    assert!(is_refused("#[cfg(feature = \"slow\")]"));
    assert!(!is_refused("#[should_panic]"));
}
