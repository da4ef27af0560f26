//! Paths that make sense on one machine only.

/// Where people and build machines keep their files. In two parts each, so that this file does not find itself.
const STARTS: &[(&str, &str)] =
    &[("/ro", "ot/"), ("/ho", "me/"), ("/Us", "ers/"), ("/t", "mp/"), ("/wo", "rk/"), ("C:\\Us", "ers\\")];

/// The lines of a text that hold such a path.
pub(crate) fn paths(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate().filter(|(_, line)| holds_one(line));
    lines.map(|(index, line)| format!("{path}:{} names a path of a machine: {}", index + 1, line.trim())).collect()
}

fn holds_one(line: &str) -> bool {
    STARTS.iter().any(|(one, two)| {
        let start = [*one, *two].concat();
        // Inside a longer path it is just a name.
        let stands_alone =
            |at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-".contains(before));
        line.match_indices(&start).any(|(at, _)| stands_alone(at))
    })
}

#[test]
fn a_path_of_a_machine_is_found_where_it_starts_and_not_within_another() {
    let somewhere = ["/ho", "me/someone/x"].concat();
    assert!(holds_one(&somewhere));
    assert!(holds_one(&format!("path = \"{somewhere}\"")));
    assert!(!holds_one(&format!("see docs{somewhere}")));
    assert!(!holds_one("https://example.com/docs"));
}
