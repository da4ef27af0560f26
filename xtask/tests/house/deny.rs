//! The reasons in deny.toml.

/// The lists in deny.toml whose every entry is an exception from a rule.
const LISTS: &[&str] = &["exceptions", "clarify", "ignore", "skip", "skip-tree", "allow-git", "allow-registry", "deny"];

/// Entries of those lists with neither a `reason` nor a comment on the line above or behind them.
pub(crate) fn exceptions_without_reason(text: &str) -> Vec<String> {
    // That it is TOML at all; comments are what a parser drops, hence the reading by lines below.
    text.parse::<toml::Table>().unwrap();

    let mut silent = Vec::new();
    let mut list = None;
    let mut line_above = "";
    for line in text.lines().map(str::trim) {
        if let Some((name, rest)) = line.split_once('=')
            && LISTS.contains(&name.trim())
        {
            match rest.trim() {
                "[]" => {}
                "[" => list = Some(name.trim()),
                _ => silent.push(format!("deny.toml: write {} with one entry per line", name.trim())),
            }
        } else if line.starts_with(']') {
            list = None;
        } else if let Some(list) = list
            && !line.is_empty()
            && !line.starts_with('#')
            && !line.contains("reason = \"")
            && !line.contains("# ")
            && !line_above.starts_with("# ")
        {
            silent.push(format!("deny.toml: {line} in {list} has no reason"));
        }
        line_above = line;
    }
    silent
}

#[test]
fn an_entry_without_a_reason_is_found() {
    let silent =
        exceptions_without_reason("[bans]\nskip = [\n  # because\n  { crate = \"a\" },\n  { crate = \"b\" },\n]\n");
    assert_eq!(silent, ["deny.toml: { crate = \"b\" }, in skip has no reason"]);
}

#[test]
fn a_reason_may_be_a_field_or_a_comment() {
    let text = "[bans]\nskip = [\n { crate = \"a\", reason = \"x\" },\n { crate = \"b\" }, # because\n]\ndeny = []\n";
    assert_eq!(exceptions_without_reason(text), Vec::<String>::new());
}

#[test]
fn a_list_on_one_line_hides_its_reasons() {
    assert_eq!(exceptions_without_reason("[bans]\nskip = [{ crate = \"a\" }] # because\n").len(), 1);
}
