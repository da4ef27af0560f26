/// Edits that may lie between what was written and what was meant, for each three letters of it.
const LETTERS_PER_EDIT: usize = 3;

/// The known name that is most like what was written, if one is like it.
pub(crate) fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let edits_max = (written.chars().count() / LETTERS_PER_EDIT).max(2);
    let lower = written.to_lowercase();
    let measured = known.into_iter().map(|name| (strsim::osa_distance(&lower, &name.to_lowercase()), name));
    measured.filter(|(edits, _)| *edits <= edits_max).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

#[test]
fn the_nearest_is_found_and_nothing_far_away() {
    let known = ["data_dir", "mailbox", "idle_timeout", "idle_scan"];
    assert_eq!(nearest("mailbx", known), Some("mailbox"));
    assert_eq!(nearest("datadir", known), Some("data_dir"));
    assert_eq!(nearest("Idle_Time_Out", known), Some("idle_timeout"));
    assert_eq!(nearest("colour", known), None);
}
