//! Settings that do not go together, all of them in one table.

use super::*;

/// What a file says that no node can do, where that is said, and what the message starts with. For types that are known and for
/// those that are not, as a command beside the application sees them.
const CONTRADICTIONS: &[(&str, &str)] = &[
    (
        "[defaults]\nidle_timeout = \"1min\"\nidle_scan = \"2min\"",
        "mainstay.toml:3: defaults: idle_scan is 120s and idle_timeout is 60s",
    ),
    ("defaults.idle_scan = \"2h\"", "mainstay.toml:1: defaults: idle_scan is 7200s and idle_timeout is 3600s"),
    (
        "[services.Counter]\nidle_scan = \"2min\"\nidle_timeout = \"1min\"",
        "services.Counter: idle_scan is 120s and idle_timeout is 60s",
    ),
    (
        "[defaults]\nidle_timeout = \"1min\"\n[services.Counter]\nidle_scan = \"2min\"",
        "mainstay.toml:4: services.Counter: idle_scan is 120s and idle_timeout is 60s",
    ),
    (
        "[defaults.reminders]\nretry_initial = \"10min\"",
        "mainstay.toml:2: defaults: reminders.retry_initial is 600s and reminders.retry_max is 300s",
    ),
    (
        "[services.Counter.reminders]\nretry_initial = \"2s\"\nretry_max = \"1s\"",
        "services.Counter: reminders.retry_initial is 2s and reminders.retry_max is 1s",
    ),
    (
        "[defaults.state.retry]\npause_first = \"2s\"",
        "mainstay.toml:2: defaults: state.retry.pause_first is 2s and state.retry.pause_max is 1s",
    ),
    (
        "[services.Shop.state.retry]\npause_max = \"1ms\"",
        "mainstay.toml:2: services.Shop: state.retry.pause_first is 4ms and state.retry.pause_max is 1ms",
    ),
    (
        "[defaults.state.retry]\ntime_max = \"4ms\"",
        "mainstay.toml:2: defaults: state.retry.pause_first is 4ms and state.retry.time_max is 4ms",
    ),
    (
        "checkpoint.bytes = \"1GiB\"",
        "mainstay.toml:1: checkpoint.bytes is 1073741824 and checkpoint.unsaved_bytes_max is 209715200",
    ),
    (
        "checkpoint.log_keep_bytes = \"2GiB\"",
        "mainstay.toml:1: checkpoint.log_keep_bytes is 2147483648 and log.bytes_max is 1073741824",
    ),
    ("log.bytes_max = \"100MiB\"", "mainstay.toml:1: log.segment_bytes is 67108864 and log.bytes_max is 104857600"),
    (
        "commit.waiting_bytes_max = \"1MiB\"",
        "mainstay.toml:1: commit.bytes_max is 16777216 and commit.waiting_bytes_max is 1048576",
    ),
    (
        "services.Counter.replicas = {min = 5, target = 3}",
        "services.Counter: replicas.min is 5 and replicas.target is 3: min may not be above target",
    ),
    (
        "[services.Counter]\npersistence = \"none\"\nreplicas.target = 3",
        "mainstay.toml:3: services.Counter: replicas are 2 to 3 and persistence is \"none\"",
    ),
];

fn without_types(file: &str) -> mainstay_core::Result<Settings> {
    let file = Some(ConfigFile::new("mainstay.toml", file));
    Surroundings { file, ..Surroundings::default() }.resolve(Knowledge::Nothing, Sections::default(), Vec::new())
}

#[test]
fn what_does_not_go_together_is_refused_with_its_place() {
    for (file, expected) in CONTRADICTIONS {
        let known = refused(file);
        assert!(known.contains(expected), "{file}\n{known}\n{expected}");
        assert!(
            known.contains(": give ")
                || known.contains(", so give ")
                || known.contains("leave ")
                || known.contains("may not"),
            "it says what to do: {known}"
        );
        let unknown = without_types(file).unwrap_err().to_string();
        assert!(unknown.contains(expected), "{file}\n{unknown}\n{expected}");
    }
}

#[test]
fn idle_actors_are_looked_for_often_enough_unless_it_is_said_how_often() {
    for (file, scan) in [
        ("", "\"1m\" from default"),
        ("services.Counter.idle_timeout = \"2h\"", "\"1m\" from default"),
        ("services.Counter.idle_timeout = \"5s\"", "\"5s\" from default"),
        ("[defaults]\nidle_timeout = \"5s\"\n[services.Counter]\nidle_timeout = \"30s\"", "\"30s\" from default"),
        ("[services.Counter]\nidle_timeout = \"5s\"\nidle_scan = \"2s\"", "\"2s\" from mainstay.toml:3"),
    ] {
        let settings = resolved(file, &[], Vec::new()).unwrap();
        assert_eq!(shown(&settings, "services.Counter.idle_scan"), scan, "{file}");
    }
}

#[test]
fn what_the_attribute_of_an_unknown_type_may_say_is_left_to_its_node() {
    // The code may say that its actors are idle after a day.
    without_types("services.Any.idle_scan = \"2h\"").unwrap();
    without_types("[defaults]\nidle_timeout = \"3h\"\n[services.Any]\nidle_scan = \"2h\"").unwrap();
    // What is wrong with the defaults is said once.
    let error = without_types("[defaults]\nidle_scan = \"2h\"\n[services.Any]\nmailbox = 5").unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
}
