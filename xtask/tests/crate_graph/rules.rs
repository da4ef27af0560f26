//! Who may use whom.

use crate::picture::{Crate, Workspace};

/// A crate of ours.
pub(crate) struct Room {
    pub(crate) name: &'static str,
    /// The crates of ours that it may name in its manifest, tests included.
    pub(crate) may_use: &'static [&'static str],
}

const fn room(name: &'static str, may_use: &'static [&'static str]) -> Room {
    Room { name, may_use }
}

/// All rooms, those planned included, from the ground up: a room uses only rooms that stand before it.
///
/// A new crate gets a line here and a paragraph in ARCHITECTURE.md.
pub(crate) const ROOMS: &[Room] = &[
    room("mainstay-macros", &[]),
    room("mainstay-core", &[]),
    room("mainstay-store", &["mainstay-core"]),
    room("mainstay-replica", &["mainstay-core", "mainstay-store"]),
    room("mainstay-state", &["mainstay-core", "mainstay-replica"]),
    room("mainstay-runtime", &["mainstay-core", "mainstay-state"]),
    room("mainstay-wire", &["mainstay-core"]),
    room("mainstay-cluster", &["mainstay-core", "mainstay-store", "mainstay-replica", "mainstay-wire"]),
    room(
        "mainstay-node",
        &[
            "mainstay-core",
            "mainstay-store",
            "mainstay-replica",
            "mainstay-state",
            "mainstay-runtime",
            "mainstay-wire",
            "mainstay-cluster",
        ],
    ),
    room(
        "mainstay-api",
        &[
            "mainstay-macros",
            "mainstay-core",
            "mainstay-store",
            "mainstay-replica",
            "mainstay-state",
            "mainstay-runtime",
            "mainstay-wire",
            "mainstay-cluster",
            "mainstay-node",
        ],
    ),
    room("mainstay-governance", &["mainstay-api"]),
    room("mainstay", &["mainstay-api", "mainstay-governance"]),
    room("mainstay-demo", &["mainstay"]),
    room("mainstay-cli", &["mainstay", "mainstay-node"]),
    room(
        "mainstay-sim",
        &[
            "mainstay",
            "mainstay-core",
            "mainstay-store",
            "mainstay-replica",
            "mainstay-state",
            "mainstay-runtime",
            "mainstay-wire",
            "mainstay-cluster",
            "mainstay-node",
            "mainstay-governance",
        ],
    ),
    room("mainstay-chaos", &["mainstay", "mainstay-sim"]),
    room(
        "mainstay-bench",
        &[
            "mainstay",
            "mainstay-core",
            "mainstay-store",
            "mainstay-replica",
            "mainstay-state",
            "mainstay-runtime",
            "mainstay-wire",
            "mainstay-cluster",
            "mainstay-node",
            "mainstay-governance",
            "mainstay-sim",
        ],
    ),
    room("xtask", &[]),
];

/// The crate that applications import.
const FACADE: &str = "mainstay";

/// Rooms that the façade re-exports by a feature of theirs, so that nobody builds them without asking. Their tests and examples
/// may name the façade, because that is how they are used.
const BY_FEATURE: &[&str] = &["mainstay-governance"];

/// A dependency from elsewhere that only some rooms may name.
struct Kept {
    /// The crate, and with it every crate whose name goes on from there with a hyphen.
    name: &'static str,
    by: &'static [&'static str],
    reason: &'static str,
}

const KEPT: &[Kept] = &[
    Kept { name: "openraft", by: &["mainstay-replica"], reason: "consensus can be replaced in one room" },
    Kept { name: "redb", by: &["mainstay-store", "mainstay-bench"], reason: "the disk store hides its engine" },
    Kept { name: "hyper", by: &["mainstay-node"], reason: "only the composition root serves HTTP" },
    Kept {
        name: "metrics-exporter-prometheus",
        by: &["mainstay-node"],
        reason: "everybody counts through the facade, and one room decides where it goes",
    },
    Kept { name: "rustls", by: &["mainstay-wire"], reason: "one room knows how connections are protected" },
    Kept { name: "tokio-rustls", by: &["mainstay-wire"], reason: "one room knows how connections are protected" },
    Kept { name: "rcgen", by: &["mainstay-wire"], reason: "one room issues certificates" },
    Kept { name: "deadpool", by: &["mainstay-bench"], reason: "it is a peer to measure against" },
    Kept { name: "fjall", by: &["mainstay-bench"], reason: "it is a peer to measure against" },
    Kept { name: "rusqlite", by: &["mainstay-bench"], reason: "it is a peer to measure against" },
    Kept { name: "rocksdb", by: &["mainstay-bench"], reason: "it is a peer to measure against" },
    Kept { name: "raft-engine", by: &["mainstay-bench"], reason: "it is a peer to measure against" },
];

/// Dependencies that are slow to build or need tools, so that nobody gets them without asking.
const OPTIONAL_ONLY: &[&str] = &["rocksdb", "raft-engine"];

/// Crates that run programs which come neither with Rust nor with a C compiler, or that link what may not be there.
const BUILD_TOOLS: &[&str] = &[
    "autotools",
    "bindgen",
    "cmake",
    "openssl-sys",
    "prost-build",
    "protobuf-build",
    "protobuf-codegen",
    "protoc-rust",
    "tonic-build",
    "tonic-prost-build",
];

/// What in a workspace breaks the rules, in words that say what to do.
pub(crate) fn objections(workspace: &Workspace) -> Vec<String> {
    let mut objections = Vec::new();
    for member in &workspace.members {
        match ROOMS.iter().find(|room| room.name == member.name) {
            Some(room) => object_to_arrows(room, member, &mut objections),
            None => objections.push(format!(
                "{} has no place in the graph: add it to ROOMS in xtask/tests/crate_graph/rules.rs and to ARCHITECTURE.md",
                member.name
            )),
        }
        object_to_kept(member, &mut objections);
    }
    object_to_build_tools(&workspace.default_build, &mut objections);
    objections
}

fn object_to_arrows(room: &Room, member: &Crate, objections: &mut Vec<String>) {
    let is_ours = |name: &str| ROOMS.iter().any(|room| room.name == name);
    for used in &member.uses {
        // A crate may name itself among its dev-dependencies, to turn on features for its own tests.
        let is_itself = used.dev && used.name == member.name;
        let is_example = used.dev && used.name == FACADE && BY_FEATURE.contains(&room.name);
        if room.name == FACADE && BY_FEATURE.contains(&used.name.as_str()) && !used.optional {
            objections.push(format!("{FACADE} may use {} as an optional dependency only, by a feature", used.name));
        }
        let is_tested = used.dev && room.name == FACADE && is_below_facade(&used.name);
        if is_ours(&used.name) && !is_itself && !is_example && !is_tested && !room.may_use.contains(&used.name.as_str())
        {
            objections.push(format!(
                "{} may not use {}: it may use {:?} (ROOMS in xtask/tests/crate_graph/rules.rs)",
                room.name, used.name, room.may_use
            ));
        }
    }
}

/// The tests of the façade are those of the whole system: they may look into every room below it.
fn is_below_facade(name: &str) -> bool {
    ROOMS.iter().take_while(|room| room.name != FACADE).any(|room| room.name == name)
}

fn object_to_kept(member: &Crate, objections: &mut Vec<String>) {
    for used in &member.uses {
        let is_kept = |kept: &&Kept| {
            let rest = used.name.strip_prefix(kept.name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let Some(kept) = KEPT.iter().find(is_kept) else { continue };
        if !kept.by.contains(&member.name.as_str()) {
            let Kept { by, reason, .. } = kept;
            objections.push(format!("{} may not use {}, only {by:?} may: {reason}", member.name, used.name));
        } else if OPTIONAL_ONLY.contains(&kept.name) && !used.optional {
            objections.push(format!("{} may use {} as an optional dependency only", member.name, used.name));
        }
    }
}

fn object_to_build_tools(default_build: &[Crate], objections: &mut Vec<String>) {
    for tool in default_build.iter().filter(|built| BUILD_TOOLS.contains(&built.name.as_str())) {
        let users = default_build.iter().filter(|user| user.uses.iter().any(|used| used.name == tool.name));
        let users: Vec<_> = users.map(|user| user.name.as_str()).collect();
        objections.push(format!(
            "{} is in the default build (used by {}): it needs more than Rust and a C compiler, so it may come in by \
             an optional feature only",
            tool.name,
            users.join(", ")
        ));
    }
}
