use mainstay_core::Level;
use mainstay_core::partitioning::Partitioning;
use mainstay_core::time::Duration;

use super::environment::Environment;
use super::file::ConfigFile;
use super::*;

mod cluster;
mod contradictions;
mod sections;

fn counter() -> Declared {
    Declared {
        name: "Counter".to_owned(),
        level: Level::Persisted,
        partitioning: Partitioning::uniform(10),
        actor: Some(|_| {}),
    }
}

/// An actor type whose attribute says something.
fn busy() -> Declared {
    Declared {
        name: "Busy".to_owned(),
        level: Level::Volatile,
        partitioning: Partitioning::uniform(4),
        actor: Some(|settings| {
            settings.mailbox = 16;
            settings.slow_turn = Duration::from_secs(1);
        }),
    }
}

fn shop() -> Declared {
    let partitioning = Partitioning::named(["eu", "us"]);
    Declared { name: "Shop".to_owned(), level: Level::Persisted, partitioning, actor: None }
}

fn resolved(file: &str, variables: &[(&str, &str)], steps: Vec<Step>) -> mainstay_core::Result<Settings> {
    let environment = Environment::of(variables.iter().map(|(name, value)| (name.into(), value.into())));
    let file = Some(ConfigFile::new("mainstay.toml", file));
    Surroundings { file, environment }.resolve(
        Knowledge::Types(vec![counter(), busy(), shop()]),
        Sections::default(),
        steps,
    )
}

fn set(key: &str, value: &str) -> Step {
    Step::Set { key: key.to_owned(), value: value.to_owned() }
}

fn shown(settings: &Settings, key: &str) -> String {
    let entry = settings.entries().iter().find(|entry| entry.key == key);
    entry.map_or_else(|| format!("no {key}"), |entry| format!("{} from {}", entry.value, entry.origin))
}

fn refused(file: &str) -> String {
    resolved(file, &[], Vec::new()).unwrap_err().to_string()
}

#[test]
fn without_anything_everything_is_a_default_or_said_by_code() {
    let settings = resolved("", &[], Vec::new()).unwrap();
    for (key, expected) in [
        ("data_dir", "\"data\" from default"),
        ("admin.address", "\"none\" from default"),
        ("log.segment_bytes", "\"64MiB\" from default"),
        ("checkpoint.interval", "\"1m\" from default"),
        ("defaults.idle_timeout", "\"1h\" from default"),
        ("defaults.memory_max", "\"none\" from default"),
        ("defaults.replicas.target", "3 from default"),
        ("services.Counter.persistence", "\"persisted\" from default"),
        ("services.Counter.partitions", "10 from default"),
        ("services.Counter.replicas.min", "2 from default"),
        ("services.Counter.mailbox", "1024 from default"),
        ("services.Busy.persistence", "\"volatile\" from attribute"),
        ("services.Busy.partitions", "4 from attribute"),
        ("services.Busy.mailbox", "16 from attribute"),
        ("services.Shop.partitions", "named(\"eu\", \"us\") from attribute"),
        ("services.Shop.mailbox", "no services.Shop.mailbox"),
        ("defaults.state.lock_timeout", "\"4s\" from default"),
        ("services.Shop.state.cache_bytes_max", "\"16MiB\" from default"),
        ("services.Shop.state.retry.tries_max", "10 from default"),
        ("services.Counter.state.lock_timeout", "no services.Counter.state.lock_timeout"),
    ] {
        assert_eq!(shown(&settings, key), expected, "{key}");
    }
    assert_eq!(settings.service("Busy").unwrap().actor.as_ref().unwrap().mailbox, 16);
    assert_eq!(settings.service("Shop").unwrap().actor, None);
    assert_eq!(settings.service("Shop").unwrap().state, Some(mainstay_runtime::StateOptions::default()));
    assert_eq!(settings.service("Busy").unwrap().state, None);
}

#[test]
fn how_collections_are_kept_is_set_for_services() {
    let file = "[defaults.state]\nlock_timeout = \"1s\"\nretry.tries_max = 3\n\
                [services.Shop.state]\ncache_bytes_max = \"64MiB\"\nretry.tries_max = 5";
    let steps = vec![set("services.Shop.state.retry.pause_max", "2s")];
    let settings = resolved(file, &[("MAINSTAY_DEFAULTS_STATE_RETRY_TIME_MAX", "9s")], steps).unwrap();
    for (key, expected) in [
        ("defaults.state.retry.tries_max", "3 from mainstay.toml:3"),
        ("services.Shop.state.lock_timeout", "\"1s\" from mainstay.toml:2"),
        ("services.Shop.state.cache_bytes_max", "\"64MiB\" from mainstay.toml:5"),
        ("services.Shop.state.retry.tries_max", "5 from mainstay.toml:6"),
        ("services.Shop.state.retry.time_max", "\"9s\" from environment MAINSTAY_DEFAULTS_STATE_RETRY_TIME_MAX"),
        ("services.Shop.state.retry.pause_max", "\"2s\" from builder"),
        ("services.Shop.state.retry.pause_first", "\"4ms\" from default"),
    ] {
        assert_eq!(shown(&settings, key), expected, "{key}");
    }
    let state = settings.service("Shop").unwrap().state.clone().unwrap();
    assert_eq!((state.lock_timeout, state.cache_bytes), (Duration::from_secs(1), 64 << 20));
    assert_eq!((state.retry.tries_max, state.retry.time_max.as_secs()), (5, 9));
}

#[test]
fn what_is_printed_is_a_file_that_says_the_same() {
    let dotted = Declared { name: "shop.Cart \"é\"".to_owned(), ..busy() };
    let resolve = |file: &str| {
        let file = Some(ConfigFile::new("mainstay.toml", file));
        let types = vec![counter(), busy(), shop(), dotted.clone()];
        Surroundings { file, environment: Environment::of(std::iter::empty()) }
            .resolve(Knowledge::Types(types), Sections::default(), Vec::new())
            .unwrap()
    };
    let values = |settings: &Settings| {
        settings.entries().iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect::<Vec<_>>()
    };
    let first =
        resolve("admin.address = 9090\n[defaults]\nmemory_max = \"1GiB\"\n[services.Counter]\npartitions = 20\n");
    let printed = first.to_string();
    assert!(printed.contains("# services.Shop.partitions"), "{printed}");
    assert_eq!(values(&resolve(&printed)), values(&first), "{printed}");

    let record = crate::RecordedService {
        name: "Counter".into(),
        level: Level::Persisted,
        partitioning: Partitioning::uniform(20),
    };
    assert_eq!(values(&resolve(&first.clone().with_records(&[record]).to_string())), values(&first));
}

#[test]
fn what_is_later_goes_over_what_is_earlier() {
    let file = "data_dir = \"of the file\"\n\
                log.segment_bytes = \"1MiB\"\n\
                store.cache_bytes_max = 1048576\n\
                [admin]\n\
                address = 9090\n\
                [defaults]\n\
                mailbox = 7\n\
                slow_turn = \"3s\"\n\
                replicas.target = 5\n\
                [services.Counter]\n\
                partitions = 20\n\
                idle_timeout = \"1h30m\"\n\
                persistence = \"volatile\"\n";
    let variables = [("MAINSTAY_DATA_DIR", "of the variable"), ("MAINSTAY_DEFAULTS_CALL_TIMEOUT", "9s")];
    let settings = resolved(file, &variables, Vec::new()).unwrap();
    for (key, expected) in [
        ("data_dir", "\"of the variable\" from environment MAINSTAY_DATA_DIR"),
        ("log.segment_bytes", "\"1MiB\" from mainstay.toml:2"),
        ("store.cache_bytes_max", "\"1MiB\" from mainstay.toml:3"),
        ("admin.address", "\"127.0.0.1:9090\" from mainstay.toml:5"),
        ("defaults.mailbox", "7 from mainstay.toml:7"),
        ("defaults.call_timeout", "\"9s\" from environment MAINSTAY_DEFAULTS_CALL_TIMEOUT"),
        ("services.Counter.mailbox", "7 from mainstay.toml:7"),
        ("services.Counter.call_timeout", "\"9s\" from environment MAINSTAY_DEFAULTS_CALL_TIMEOUT"),
        ("services.Counter.idle_timeout", "\"1h30m\" from mainstay.toml:12"),
        ("services.Counter.partitions", "20 from mainstay.toml:11"),
        ("services.Counter.persistence", "\"volatile\" from mainstay.toml:13"),
        ("services.Counter.replicas.target", "5 from mainstay.toml:9"),
        ("services.Counter.replicas.min", "3 from default"),
        // What a type says of itself goes over what is said for all, even where it repeats a default.
        ("services.Busy.mailbox", "16 from attribute"),
        ("services.Busy.slow_turn", "\"1s\" from attribute"),
    ] {
        assert_eq!(shown(&settings, key), expected, "{key}");
    }
    let counter = settings.service("Counter").unwrap();
    assert_eq!((counter.level.value, &counter.partitioning.value), (Level::Volatile, &Partitioning::uniform(20)));
    assert_eq!(counter.replicas, Replicas { min: 3, target: 5 });
    assert_eq!(settings.host_options().log.segment_bytes, 1 << 20);

    let steps = vec![
        set("admin.address", "0.0.0.0:1"),
        Step::Node { keys: &["data_dir"], change: Box::new(|node| node.data_dir = "of the builder".into()) },
        Step::Actors(Box::new(|settings| settings.mailbox = 8)),
        set("services.Counter.idle_timeout", "5min"),
        set("services.Busy.active_actors_max", "100"),
    ];
    let settings = resolved(file, &variables, steps).unwrap();
    for (key, expected) in [
        ("data_dir", "\"of the builder\" from builder"),
        ("admin.address", "\"0.0.0.0:1\" from builder"),
        ("services.Counter.mailbox", "8 from builder"),
        ("services.Busy.mailbox", "16 from attribute"),
        ("services.Counter.idle_timeout", "\"5m\" from builder"),
        ("services.Busy.active_actors_max", "100 from builder"),
    ] {
        assert_eq!(shown(&settings, key), expected, "{key}");
    }
}

#[test]
fn a_mistake_is_named_with_its_place_and_what_is_allowed() {
    for (file, expected) in [
        (
            "\ndata_dri = \"x\"",
            "mainstay.toml:2: unknown key \"data_dri\": did you mean \"data_dir\"? (known here: data_dir, admin.address,",
        ),
        ("[defaults]\nmailbx = 5", "mainstay.toml:2: unknown key \"defaults.mailbx\": did you mean \"mailbox\"?"),
        (
            "[services.Counter]\nreplica.min = 3",
            "mainstay.toml:2: unknown key \"services.Counter.replica.min\": did you mean \"replicas.min\"?",
        ),
        (
            "[services.Shop]\npartition = 3",
            "mainstay.toml:2: unknown key \"services.Shop.partition\": did you mean \"partitions\"?",
        ),
        (
            "[services.Conter]\nmailbox = 3",
            "mainstay.toml:2: this program has no service or actor type \"Conter\": did you mean \"Counter\"? (it has Counter, Busy, Shop)",
        ),
        ("[services.Conter]", "mainstay.toml:1: this program has no service or actor type \"Conter\""),
        ("[colours]\nred = 1", "mainstay.toml:2: unknown key \"colours.red\" (known here: data_dir,"),
        (
            "mailbox = 3",
            "mainstay.toml:1: mailbox is a setting of actors: write it below [defaults] or [services.NAME]",
        ),
        (
            "[services.Shop]\nmailbox = 3",
            "mainstay.toml:2: services.Shop.mailbox is a setting of actors, and Shop is a service: remove it",
        ),
        (
            "[services.Counter]\nstate.lock_timeout = \"1s\"",
            "mainstay.toml:2: services.Counter.state.lock_timeout is a setting of services, and Counter is an actor type: remove it",
        ),
        (
            "state.lock_timeout = \"1s\"",
            "mainstay.toml:1: state.lock_timeout is a setting of services: write it below [defaults] or [services.NAME]",
        ),
        (
            "[services.Shop]\nstate.lock_timeot = \"1s\"",
            "unknown key \"services.Shop.state.lock_timeot\": did you mean \"state.lock_timeout\"?",
        ),
        (
            "[defaults]\nstate.lock_timeot = \"1s\"",
            "unknown key \"defaults.state.lock_timeot\": did you mean \"state.lock_timeout\"?",
        ),
        ("[services.Shop]\nstate.lock_timeout = \"2h\"", "services.Shop.state.lock_timeout is \"2h\": give a duration"),
        (
            "[services.Shop]\npartitions = 3",
            "mainstay.toml:2: services.Shop.partitions is a number, and the code of Shop cuts it as named(\"eu\", \"us\")",
        ),
        ("[defaults]\npersistence = \"none\"", "mainstay.toml:2: defaults.persistence cannot be set for all types"),
        ("admin = 9090", "mainstay.toml:1: admin is a section and not a setting: give admin.address"),
        ("services = 1", "mainstay.toml:1: services is a section and not a setting: write [services]"),
        (
            "services.Counter = 1",
            "mainstay.toml:1: services.Counter is a section and not a setting: write [services.Counter]",
        ),
        (
            "defaults.mailbox = \"many\"",
            "mainstay.toml:1: defaults.mailbox is \"many\": give a whole number from 1 to 1048576",
        ),
        ("defaults.mailbox = 0", "mainstay.toml:1: defaults.mailbox is 0: give a whole number from 1 to 1048576"),
        ("defaults.mailbox = 1.5", "mainstay.toml:1: defaults.mailbox is of the type float: give a whole number"),
        ("defaults.mailbox = -3", "mainstay.toml:1: defaults.mailbox is -3: give"),
        (
            "defaults.idle_timeout = 60",
            "mainstay.toml:1: defaults.idle_timeout is 60: give a duration with its unit from \"1ms\" to",
        ),
        ("defaults.idle_timeout = \"soon\"", "such as \"60s\", \"5min\" or \"1h30m\""),
        ("defaults.memory_max = \"64 apples\"", "or \"none\""),
        (
            "log.segment_bytes = \"1KiB\"",
            "mainstay.toml:1: log.segment_bytes is \"1KiB\": give a size from \"64KiB\" to \"1GiB\", such as \"64MiB\"",
        ),
        (
            "admin.address = \"localhost:9090\"",
            "mainstay.toml:1: admin.address is \"localhost:9090\": give a port such as 9090 for this machine alone",
        ),
        ("admin.address = 70000", "mainstay.toml:1: admin.address is 70000: give a port"),
        ("data_dir = \"\"", "mainstay.toml:1: data_dir is \"\": give a path"),
        ("data_dir = [\"a\"]", "mainstay.toml:1: data_dir is [\"a\"]: give a path"),
        ("services.Counter.persistence = \"durable\"", "give \"persisted\", \"volatile\" or \"none\""),
        ("services.Counter.partitions = 10001", "give a whole number from 1 to 10000"),
        (
            "services.Counter.replicas.min = 1",
            "mainstay.toml:1: services.Counter: replicas.min is 1 and replicas.target is 3: min must be more than half",
        ),
        ("services.Counter.replicas = {min = 5, target = 3}", "min may not be above target"),
        (
            "[services.Counter]\npersistence = \"none\"\nreplicas.target = 3",
            "mainstay.toml:3: services.Counter: replicas are 2 to 3 and persistence is \"none\"",
        ),
        ("defaults.replicas.target = 2", "mainstay.toml:1: defaults: replicas.min is 2 and replicas.target is 2"),
        (
            "[defaults.reminders]\nretry_initial = \"10min\"",
            "mainstay.toml:2: defaults: reminders.retry_initial is 600s and reminders.retry_max is 300s",
        ),
        (
            "checkpoint.bytes = \"1GiB\"",
            "mainstay.toml:1: checkpoint.bytes is 1073741824 and checkpoint.unsaved_bytes_max is 209715200",
        ),
        (
            "commit.waiting_bytes_max = \"1MiB\"",
            "mainstay.toml:1: commit.bytes_max is 16777216 and commit.waiting_bytes_max is 1048576",
        ),
        ("data_dir = \"a\"\ndata_dir = \"b\"", "mainstay.toml:2: this is not TOML: duplicate key"),
        ("data_dir = ", "mainstay.toml:1: this is not TOML: "),
        ("[defaults\n", "mainstay.toml:1: this is not TOML: "),
        ("defaults.mailbox = 99999999999999999999999999999999999999999999", "defaults.mailbox is"),
    ] {
        let error = refused(file);
        assert!(error.contains(expected), "{file}\n{error}\n{expected}");
    }
}

#[test]
fn all_mistakes_are_said_at_once() {
    let error = refused("data_dri = \"x\"\nadmin.address = true\n[defaults]\nmailbox = 0\n[services.X]\na = 1\n");
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 4, "{error}");
    for line in [1, 2, 4, 6] {
        assert!(lines.iter().any(|text| text.starts_with(&format!("mainstay.toml:{line}: "))), "{line}: {error}");
    }
    let many: String = (0..50).map(|number| format!("wrong{number} = 1\n")).collect();
    let error = refused(&many);
    assert!(error.ends_with("\nand 30 more"), "{error}");
}

#[test]
fn sections_without_content_are_fine() {
    resolved("[admin]\n[defaults]\n[services]\n[services.Counter]\n[defaults.reminders]\n", &[], Vec::new()).unwrap();
}

#[test]
fn the_environment_is_checked_like_the_file_and_strangers_in_it_are_only_remarked() {
    let error = resolved("", &[("MAINSTAY_ADMIN_ADDRESS", "everywhere")], Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with("environment MAINSTAY_ADMIN_ADDRESS: admin.address is \"everywhere\": give"), "{error}");
    let variables = [
        ("MAINSTAY_DATADIR", "x"),
        ("MAINSTAY_SERVICE_PORT", "443"),
        ("MAINSTAY_LOG_SEGMENT_BYTES", ""),
        ("OTHER_DATA_DIR", "y"),
    ];
    let settings = resolved("", &variables, Vec::new()).unwrap();
    assert_eq!(shown(&settings, "data_dir"), "\"data\" from default");
    assert_eq!(shown(&settings, "log.segment_bytes"), "\"64MiB\" from default", "an empty variable is none");
    let remarks = settings.remarks();
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    assert!(
        remarks[0].contains("MAINSTAY_DATADIR") && remarks[0].ends_with("was MAINSTAY_DATA_DIR meant?"),
        "{remarks:?}"
    );
    assert!(settings.to_string().ends_with(&format!("# {}\n", remarks[1])), "{settings}");
}

#[test]
fn the_builder_is_checked_like_the_file() {
    for (key, value, expected) in [
        ("defaults.mailbx", "5", "builder: unknown key \"defaults.mailbx\": did you mean \"mailbox\"?"),
        ("services.Counter.mailbox", "none", "builder: services.Counter.mailbox is \"none\": give"),
        ("services.Nobody.mailbox", "5", "builder: this program has no service or actor type \"Nobody\""),
    ] {
        let error = resolved("", &[], vec![set(key, value)]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_attribute_that_cannot_be_is_refused() {
    let mut declared = counter();
    declared.actor = Some(|settings| settings.mailbox = 0);
    let error =
        Surroundings::default().resolve(Knowledge::Types(vec![declared]), Sections::default(), Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "attribute: services.Counter: mailbox is 0: use 1 to 1048576");
}

#[test]
fn replicas_follow_the_level_and_the_target() {
    let replicas = |file: &str| resolved(file, &[], Vec::new()).unwrap().service("Counter").unwrap().replicas;
    let of = |min, target| Replicas { min, target };
    assert_eq!(replicas(""), of(2, 3));
    assert_eq!(replicas("services.Counter.persistence = \"volatile\""), of(2, 3));
    assert_eq!(replicas("services.Counter.replicas.min = 3"), of(3, 3));
    assert_eq!(replicas("services.Counter.persistence = \"none\""), of(1, 1));
    assert_eq!(replicas("services.Counter.replicas.target = 1"), of(1, 1));
    assert_eq!(replicas("services.Counter.replicas.target = 7"), of(4, 7));
    assert_eq!(replicas("defaults.replicas = {min = 4, target = 5}"), of(4, 5));
    assert_eq!(replicas("defaults.replicas = {min = 4, target = 5}\nservices.Counter.replicas.target = 1"), of(1, 1));
    assert_eq!(
        replicas("defaults.replicas.target = 5\nservices.Counter.persistence = \"none\""),
        of(1, 1),
        "what is said for all is not for what one node keeps"
    );
}

#[test]
fn what_one_node_makes_of_replicas_is_shown() {
    let file = "[services.Counter]\npartitions = 10\nreplicas.min = 2\nreplicas.target = 3\n";
    let settings = resolved(file, &[], Vec::new()).unwrap();
    let table = settings.to_string();
    let line = |key: &str| {
        let line = table.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        line("services.Counter.replicas.min"),
        "services.Counter.replicas.min = 2 # mainstay.toml:3; 1 on one node"
    );
    assert_eq!(
        line("services.Counter.replicas.target"),
        "services.Counter.replicas.target = 3 # mainstay.toml:4; 1 on one node"
    );
    assert_eq!(line("defaults.replicas.min"), "defaults.replicas.min = 2 # default; 1 on one node");
    assert_eq!(line("services.Counter.partitions"), "services.Counter.partitions = 10 # mainstay.toml:2");
    let json = settings.to_json();
    let of = |key: &str| json["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap();
    assert_eq!(of("services.Counter.replicas.target")["value"].as_u64(), Some(3));
    assert_eq!(of("services.Counter.replicas.target")["in_force"], 1);
    assert!(of("services.Counter.partitions").get("in_force").is_none());
    // One replica is what one node has: nothing to remark.
    let one = resolved("services.Counter.replicas.target = 1", &[], Vec::new()).unwrap();
    assert!(!one.to_string().contains("services.Counter.replicas.target = 1  # mainstay.toml:1;"), "{one}");
}

#[test]
fn without_types_services_are_shown_as_the_file_has_them() {
    let of = |text: &str| {
        let file = Some(ConfigFile::new("mainstay.toml", text));
        Surroundings { file, ..Surroundings::default() }.resolve(Knowledge::Nothing, Sections::default(), Vec::new())
    };
    let settings =
        of("[services.Any]\nmailbox = 5\npersistence = \"volatile\"\npartitions = 20\n[services.Empty]").unwrap();
    let state = of("[services.Any]\nstate.lock_timeout = \"1s\"").unwrap();
    assert_eq!(shown(&state, "services.Any.state.lock_timeout"), "\"1s\" from mainstay.toml:2");
    assert_eq!(shown(&settings, "services.Any.mailbox"), "5 from mainstay.toml:2");
    assert_eq!(shown(&settings, "services.Any.partitions"), "20 from mainstay.toml:4");
    assert_eq!(settings.entries().iter().filter(|entry| entry.key.starts_with("services.")).count(), 3);
    for (text, expected) in [
        ("services.Any.mailbx = 5", "did you mean \"mailbox\"?"),
        ("services.Any.mailbox = 0", "services.Any.mailbox is 0"),
        ("services.Any = 1", "services.Any is a section"),
        ("services.Any.replicas.min = 1", "more than half of target"),
    ] {
        let error = of(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let record =
        |level, count| crate::RecordedService { name: "Any".into(), level, partitioning: Partitioning::uniform(count) };
    let same = settings.clone().with_records(&[record(Level::Volatile, 20)]);
    assert_eq!(same.remarks(), [""; 0]);
    let other = settings.with_records(&[record(Level::Persisted, 10)]);
    assert_eq!(
        other.remarks(),
        [
            "services.Any.persistence is \"persisted\" in the data folder and \"volatile\" by mainstay.toml:3: a node will \
             refuse to start",
            "services.Any.partitions is 10 in the data folder and 20 by mainstay.toml:4: a node will refuse to start",
        ]
    );
}

#[test]
fn what_is_shown_can_be_read_by_programs() {
    let settings = resolved("data_dir = \"d\"", &[("MAINSTAY_ADMIN_ADDRESS", "9090")], Vec::new()).unwrap();
    let json = settings.to_json();
    assert_eq!(json["file"], "mainstay.toml");
    assert_eq!(
        json["settings"][0],
        serde_json::json!({"key": "data_dir", "value": "d", "origin": {"kind": "file", "path": "mainstay.toml", "line": 1}})
    );
    assert_eq!(
        json["settings"][1],
        serde_json::json!({"key": "admin.address", "value": "127.0.0.1:9090", "origin": {"kind": "environment", "variable": "MAINSTAY_ADMIN_ADDRESS"}})
    );
    let all = json["settings"].as_array().unwrap();
    assert_eq!(all.iter().find(|setting| setting["key"] == "sets_per_level").unwrap()["value"], 8);
}

/// Whatever is shown for a node could be written into the file as it is.
#[test]
fn what_is_shown_is_a_file_that_says_the_same() {
    let settings = resolved("", &[], Vec::new()).unwrap();
    let lines = settings.to_string();
    let text: String =
        lines.lines().filter(|line| !line.contains(".partitions ")).map(|line| format!("{line}\n")).collect();
    let again = resolved(&text, &[], Vec::new()).unwrap();
    for (one, other) in settings.entries().iter().zip(again.entries()) {
        assert_eq!((&one.key, &one.value), (&other.key, &other.value));
    }
}

#[test]
fn a_file_that_was_named_must_exist_and_be_small() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.toml");
    let error = crate::Node::builder().isolated().config_file(&path).settings().unwrap_err();
    assert_eq!(error.kind(), mainstay_core::ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("other.toml"), "{error}");
    std::fs::write(&path, "data_dir = \"there\"\n").unwrap();
    let settings = crate::Node::builder().isolated().config_file(&path).settings().unwrap();
    assert_eq!((settings.data_dir(), settings.config_file()), (std::path::Path::new("there"), Some(path.as_path())));
    std::fs::write(&path, [b'#'; CONFIG_FILE_BYTES_MAX as usize + 1]).unwrap();
    let error = crate::Node::builder().isolated().config_file(&path).settings().unwrap_err();
    assert_eq!(error.kind(), mainstay_core::ErrorKind::TooLarge, "{error}");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    let error = crate::Node::builder().isolated().config_file(&path).settings().unwrap_err();
    assert_eq!(error.kind(), mainstay_core::ErrorKind::Invalid, "{error}");
}

/// The guide lists every key with its default, and no other.
#[test]
fn the_guide_lists_every_key() {
    let guide = include_str!("../../../../docs/guide/configuration.md");
    let rows: Vec<_> = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ")).collect();
    let settings = resolved("", &[], Vec::new()).unwrap();
    let listed = |key: &str| rows.iter().find(|(name, _)| *name == key).map(|(_, rest)| *rest);
    for entry in settings.entries().iter().filter(|entry| !entry.key.starts_with("services.")) {
        let key = entry.key.strip_prefix("defaults.").unwrap_or(&entry.key);
        let row = listed(key).unwrap_or_else(|| panic!("the guide has no row for {key}"));
        let default = match &entry.value {
            Value::Count(count) => count.to_string(),
            value => format!("`{value}`"),
        };
        assert!(row.starts_with(&default), "{key} is {default} and the guide says {row}");
    }
    for (name, _) in &rows {
        let known = |scope: &str| settings.entries().iter().any(|entry| entry.key == format!("{scope}{name}"));
        assert!(
            known("") || known("defaults.") || known("services.Counter."),
            "the guide lists {name}, which is no key"
        );
    }
}
