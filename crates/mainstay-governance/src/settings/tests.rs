use std::collections::BTreeSet;

use mainstay::Node;
use mainstay::node::settings::{Origin, Value};

use super::*;

/// A node that has a section of each kind, with nothing but defaults. What has no default has a value of the code.
fn with_all() -> NodeBuilder {
    let cache = CacheSettings { writes: WriteMode::Behind { flush_after: DAY }, ..CacheSettings::default() };
    let batches = BatchSettings { bytes_max: Some(1 << 20), ..BatchSettings::default() };
    Node::builder()
        .isolated()
        .section_named(RESOLVERS, "x", ResolverSettings::default())
        .section_named(LIMITS, "x", LimiterSettings::default())
        .section_named(OWNERS, "x", OwnerSettings::default())
        .section_named(POOLS, "x", PoolSettings::default())
        .section_named(BATCHES, "x", batches)
        .section_named(QUEUES, "x", DurableSettings::default())
        .section_named(CACHES, "x", cache)
        .section_named(CSV, "x", CsvTuning { folder: "rows".into(), ..CsvTuning::default() })
}

/// All keys, with the section of each and what it is unless told otherwise; `None` if the code says so.
fn keys() -> Vec<(String, String, Option<Value>)> {
    let settings = with_all().settings().unwrap();
    let entries = settings.entries().iter().filter_map(|entry| {
        let (section, key) = entry.key.strip_prefix("governance.")?.split_once(".x.")?;
        let default = (entry.origin == Origin::Default).then(|| entry.value.clone());
        Some((section.to_owned(), key.to_owned(), default))
    });
    entries.collect()
}

#[test]
fn every_default_is_within_the_bounds_of_its_key() {
    let settings = with_all().settings().unwrap();
    let ours = settings.entries().iter().filter(|entry| entry.key.starts_with("governance."));
    let mut set = with_all();
    for entry in ours.clone() {
        set = set.set(&entry.key, entry.value.to_string().trim_matches('"'));
    }
    let set = set.settings().unwrap();
    for entry in ours {
        let again = set.entries().iter().find(|again| again.key == entry.key).unwrap();
        assert_eq!((&again.value, &again.origin), (&entry.value, &Origin::Builder), "{}", entry.key);
    }
}

#[test]
fn tools_know_every_section_by_any_name() {
    let mut builder = sections(Node::builder().isolated());
    for (section, key, default) in keys() {
        let value = default.map_or("none".to_owned(), |value| value.to_string());
        let value = match key.as_str() {
            "flush_after" => "1s",
            "folder" => "rows",
            _ => value.trim_matches('"'),
        };
        builder = builder.set(format!("governance.{section}.any.{key}"), value);
    }
    let settings = builder.settings_without_types().unwrap();
    let shown = settings.entries().iter().filter(|entry| entry.key.starts_with("governance."));
    assert_eq!(shown.count(), keys().len());
}

#[test]
fn what_does_not_go_together_is_refused_at_the_start() {
    for (key, value, says) in [
        ("owners.x.backoff.max", "1ms", "governance.owners.x: backoff.first is 100ms and backoff.max is 1ms"),
        ("pools.x.breaker.open_time.first", "1h", "governance.pools.x: breaker.open_time.first is 3600s and"),
        ("batches.x.retry.backoff_max", "1ms", "retry.backoff_initial is 50ms and retry.backoff_max is 1ms"),
        ("queues.x.retry.backoff_initial", "1min", "retry.backoff_initial is 60s and retry.backoff_max is 5s"),
        ("caches.x.fresh_for", "5s", "governance.caches.x: refresh_ahead of the cache is 10s and fresh_for is 5s"),
    ] {
        let refused = with_all().set(format!("governance.{key}"), value).settings().unwrap_err().to_string();
        assert!(refused.starts_with("builder: ") && refused.contains(says), "{key}: {refused}");
    }
    // The code writes through, and counts no bytes.
    for (section, key) in [("caches", "flush_after"), ("batches", "bytes_max"), ("batches", "waiting_bytes_max")] {
        let builder = Node::builder().isolated().section_named(CACHES, "x", CacheSettings::default());
        let builder = builder.section_named(BATCHES, "x", BatchSettings::default());
        let value = if key == "flush_after" { "1s" } else { "1MiB" };
        let refused = builder.set(format!("governance.{section}.x.{key}"), value).settings().unwrap_err().to_string();
        assert!(refused.contains("has no meaning beside what the program says"), "{refused}");
    }
}

/// The guide lists every key with its default, and no other.
#[test]
fn the_guide_lists_every_key() {
    let guide = include_str!("../../../../docs/guide/resource-governance.md");
    let mut listed = BTreeSet::new();
    let mut section = "";
    for line in guide.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            let name = heading.split_once("`[governance.").and_then(|(_, rest)| rest.split_once(".NAME]`"));
            section = name.map_or("", |(name, _)| name);
        }
        let row = line.strip_prefix("| `").and_then(|row| row.split_once("` | ")).filter(|_| !section.is_empty());
        listed.extend(row.map(|(key, rest)| {
            let default = rest.split(" | ").next().unwrap();
            (section.to_owned(), key.to_owned(), default.to_owned())
        }));
    }
    let known = keys().into_iter().map(|(section, key, default)| {
        let default = match default {
            // Those that the builder of this test has to say, so that they are there.
            None if section == "batches" => "`\"none\"`".to_owned(),
            None => "the code".to_owned(),
            Some(Value::Count(count)) => count.to_string(),
            Some(value) => format!("`{value}`"),
        };
        (section, key, default)
    });
    assert_eq!(listed, known.collect());
}
