//! What every manifest of the workspace says.

use cargo_metadata::{MetadataCommand, Package};

/// What is missing in the manifests of our crates.
pub(crate) fn omissions() -> Vec<String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec().unwrap();
    let packages = metadata.workspace_packages();
    assert!(!packages.is_empty());
    packages.into_iter().flat_map(omissions_of).collect()
}

fn omissions_of(package: &Package) -> Vec<String> {
    let folder = package.manifest_path.parent().unwrap();
    let text = std::fs::read_to_string(&package.manifest_path).unwrap();
    let inherits_lints =
        text.split("[lints]").nth(1).is_some_and(|rest| rest.trim_start().starts_with("workspace = true"));
    let is_in_crates = folder.parent().and_then(|parent| parent.file_name()) == Some("crates");
    let has_words = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.trim().is_empty());
    let rules = [
        (has_words(&package.description), "has no description"),
        (package.license.as_deref() == Some("MIT OR Apache-2.0"), "is not licensed as MIT OR Apache-2.0"),
        (package.rust_version.is_some(), "names no rust-version"),
        (inherits_lints, "does not inherit the lints of the workspace"),
        (!is_in_crates || folder.file_name() == Some(package.name.as_str()), "is in a folder of another name"),
    ];
    let broken = rules.into_iter().filter(|(holds, _)| !holds);
    broken.map(|(_, complaint)| format!("{} {complaint}", package.name)).collect()
}
