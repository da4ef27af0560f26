//! Errors whose message repeats their cause, so that a person reads it twice.

/// What attaches a cause to an error.
const ATTACHES: &str = ".with_source(";

/// The places in a source file where a message has its cause in it and attaches it as well.
pub(crate) fn repeated(path: &str, text: &str) -> Vec<String> {
    let places = text.match_indices(ATTACHES).filter_map(|(at, _)| {
        let name: String =
            text[at + ATTACHES.len()..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // The closure or function in which the cause has this name.
        let before = &text[..at];
        let begin = before.rfind(&format!("|{name}")).max(before.rfind("fn "))?;
        let message = &before[begin..];
        let is_repeated = message.contains(&format!("{{{name}}}")) || message.contains(&format!("{{{name}:"));
        let line = before.matches('\n').count() + 1;
        is_repeated
            .then(|| format!("{path}:{line}: the message has `{{{name}}}` in it, and `{name}` is its source as well"))
    });
    places.collect()
}

#[test]
fn a_message_with_its_cause_in_it_is_found() {
    let found = |text: &str| repeated("a.rs", text).len();
    assert_eq!(found("x.map_err(|error| Error::new(kind, format!(\"no: {error}\")).with_source(error))"), 1);
    assert_eq!(
        found("fn no(cause: E) -> Error {\n let text = format!(\"{cause:?}\");\n E(text).with_source(cause) }"),
        1
    );
    assert_eq!(found("x.map_err(|error| Error::new(kind, \"no\").with_source(error))"), 0);
    assert_eq!(found("fn a() { log!(\"{error}\") }\nfn b(error: E) { Error::fatal(\"no\").with_source(error) }"), 0);
}
