use std::fmt;

use clap::ValueEnum;

/// A room whose mutants are worth the time: what it decides, everything above relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Room {
    /// The lock manager of the collections
    Lock,
    /// The output gate of actors
    Gate,
    /// The committer of a replica
    Committer,
    /// The segments of the node log
    Segment,
    /// Resource pools
    Pool,
    /// Rate and concurrency limits
    Limit,
    /// Resolvers
    Resolve,
}

impl Room {
    /// Its files, as patterns from the folder of the workspace.
    pub(crate) fn files(self) -> &'static [&'static str] {
        match self {
            Room::Lock => &["crates/mainstay-state/src/lock/**/*.rs"],
            Room::Gate => &["crates/mainstay-runtime/src/actor/gate.rs"],
            Room::Committer => {
                &["crates/mainstay-replica/src/committer.rs", "crates/mainstay-replica/src/committer/**/*.rs"]
            }
            Room::Segment => {
                &["crates/mainstay-store/src/log/segment.rs", "crates/mainstay-store/src/log/segment/**/*.rs"]
            }
            Room::Pool => &["crates/mainstay-governance/src/pool/**/*.rs"],
            Room::Limit => &["crates/mainstay-governance/src/limit/**/*.rs"],
            Room::Resolve => &["crates/mainstay-governance/src/resolve/**/*.rs"],
        }
    }

    /// The tests that should notice, as arguments of `cargo nextest run`: those of the room, and no others, because they run
    /// for each mutant.
    pub(crate) fn tests(self) -> &'static [&'static str] {
        match self {
            Room::Lock => {
                &["-p=mainstay-state", "--lib", "--test=transactions", "-E=test(/^lock::/) | binary(transactions)"]
            }
            // It has no tests of its own: what leaves an actor, and when, is seen by calling one.
            Room::Gate => &["-p=mainstay", "--test=actors", "-E=test(/^(gate|saving|turns|deferred|giving_up)::/)"],
            Room::Committer => &["-p=mainstay-replica", "--lib", "--test=cluster"],
            Room::Segment => &["-p=mainstay-store", "--lib", "--test=node_log", "-E=test(/^log::/) | binary(node_log)"],
            Room::Pool => &["-p=mainstay-governance", "--lib", "--test=pool", "-E=test(/^pool::/) | binary(pool)"],
            Room::Limit => &["-p=mainstay-governance", "--lib", "--test=limit", "-E=test(/^limit::/) | binary(limit)"],
            Room::Resolve => {
                &["-p=mainstay-governance", "--lib", "--test=resolve", "-E=test(/^resolve::/) | binary(resolve)"]
            }
        }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No variant is skipped, so every one has a name.
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::workspace_root;

    #[test]
    fn the_files_and_tests_of_every_room_are_there() {
        for room in Room::value_variants() {
            for pattern in room.files() {
                let path = workspace_root().join(pattern.trim_end_matches("/**/*.rs"));
                assert!(path.exists(), "{room}: {}", path.display());
            }
            let (mut package, mut has_tests) = (None, false);
            for argument in room.tests() {
                if let Some(name) = argument.strip_prefix("-p=") {
                    package = Some(workspace_root().join("crates").join(name));
                }
                if let Some(name) = argument.strip_prefix("--test=") {
                    let tests = package.as_ref().unwrap().join("tests");
                    has_tests =
                        [format!("{name}.rs"), format!("{name}/main.rs")].iter().any(|it| tests.join(it).exists());
                    assert!(has_tests, "{room}: {name} in {}", tests.display());
                }
            }
            assert!(has_tests, "{room}");
        }
    }
}
