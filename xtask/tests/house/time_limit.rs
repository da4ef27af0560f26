//! The time limits of tests.

use toml::Value;

/// What the settings of nextest leave without an end: a profile, or an exception from it.
pub(crate) fn endless(settings: &str) -> Vec<String> {
    let settings: toml::Table = settings.parse().unwrap();
    let profiles = settings.get("profile").and_then(Value::as_table).expect("profiles");
    let mut endless = Vec::new();
    if !profiles.contains_key("default") {
        endless.push("there is no profile `default`, from which all others inherit".to_owned());
    }
    for (name, profile) in profiles {
        // Other profiles have what the default one has, unless they say otherwise.
        let may_be_silent = name != "default";
        if !ends(profile, may_be_silent) {
            endless.push(format!(
                "profile {name} does not end a test that hangs: give `slow-timeout` a `terminate-after`"
            ));
        }
        let exceptions = profile.get("overrides").and_then(Value::as_array);
        for exception in exceptions.into_iter().flatten().filter(|exception| !ends(exception, true)) {
            endless.push(format!("profile {name} has an exception that never ends: {exception:?}"));
        }
    }
    endless
}

fn ends(settings: &Value, may_be_silent: bool) -> bool {
    match settings.get("slow-timeout") {
        None => may_be_silent,
        Some(limit) => limit.get("terminate-after").and_then(Value::as_integer).is_some_and(|periods| periods > 0),
    }
}

#[test]
fn what_does_not_end_a_hanging_test_is_found() {
    let ends = "slow-timeout = { period = \"60s\", terminate-after = 5 }";
    let endless_in = |text: &str| endless(text).len();
    assert_eq!(endless_in(&format!("[profile.default]\n{ends}\n[profile.ci]\nretries = 0")), 0);
    assert_eq!(endless_in("[profile.default]\nslow-timeout = \"60s\""), 1);
    assert_eq!(endless_in("[profile.default]\nretries = 0"), 1);
    assert_eq!(endless_in(&format!("[profile.ci]\n{ends}")), 1);
    let exception = "[[profile.default.overrides]]\nfilter = 'all()'\nslow-timeout = \"60s\"";
    assert_eq!(endless_in(&format!("[profile.default]\n{ends}\n{exception}")), 1);
}
