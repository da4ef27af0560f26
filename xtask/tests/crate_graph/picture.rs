//! What the rules need to know of a workspace.

use std::collections::HashMap;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// The crates of a workspace and what they use.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// Our own crates, with what their manifests declare: of every kind, for every platform, under every feature.
    pub(crate) members: Vec<Crate>,
    /// Every crate that a build without features compiles on any platform, with what it uses then.
    pub(crate) default_build: Vec<Crate>,
}

/// A crate and what it uses.
#[derive(Debug)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) uses: Vec<Use>,
}

/// An arrow from one crate to another.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    pub(crate) name: String,
    pub(crate) optional: bool,
    pub(crate) dev: bool,
}

impl Use {
    pub(crate) fn normal(name: &str) -> Self {
        Self { name: name.to_owned(), optional: false, dev: false }
    }

    pub(crate) fn optional(name: &str) -> Self {
        Self { optional: true, ..Self::normal(name) }
    }

    pub(crate) fn dev(name: &str) -> Self {
        Self { dev: true, ..Self::normal(name) }
    }
}

impl Workspace {
    /// This workspace, as cargo knows it.
    pub(crate) fn load() -> Self {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let options = vec!["--locked".to_owned()];
        let metadata = MetadataCommand::new().manifest_path(manifest).other_options(options).exec().unwrap();

        let members = metadata.workspace_packages().into_iter().map(|package| {
            let uses = package.dependencies.iter().map(|dependency| Use {
                name: dependency.name.clone(),
                optional: dependency.optional,
                dev: dependency.kind == DependencyKind::Development,
            });
            Crate { name: package.name.to_string(), uses: uses.collect() }
        });

        let names: HashMap<_, _> = metadata.packages.iter().map(|package| (&package.id, &package.name)).collect();
        let nodes = &metadata.resolve.as_ref().expect("cargo resolves unless told not to").nodes;
        let default_build = nodes.iter().map(|node| {
            let uses = node.dependencies.iter().map(|id| Use::normal(names[id]));
            Crate { name: names[&node.id].to_string(), uses: uses.collect() }
        });

        Self { members: members.collect(), default_build: default_build.collect() }
    }
}
