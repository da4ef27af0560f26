//! The files of the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What was built or fetched, not written. (`.git` is a file in a linked worktree.)
const NOT_OURS: &[&str] = &[".git", "target", "data"];

/// Every text file of the repository, by its path from the root with forward slashes.
pub(crate) struct Tree {
    root: PathBuf,
    texts: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository.
    pub(crate) fn load() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
        let mut tree = Self { root, texts: BTreeMap::new() };
        tree.visit("");
        assert!(tree.texts.contains_key("Cargo.toml"), "{} is not the root of the repository", tree.root.display());
        tree
    }

    /// Every text file with its path.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The documents for people, with their paths.
    pub(crate) fn documents(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".md"))
    }

    /// One text file.
    pub(crate) fn text(&self, path: &str) -> String {
        self.texts.get(path).unwrap_or_else(|| panic!("{path} is missing")).clone()
    }

    /// True if there is a file or a folder of that path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The names of the folders in a folder.
    pub(crate) fn folders(&self, folder: &str) -> Vec<String> {
        let start = format!("{folder}/");
        let inside = self.texts.keys().filter_map(|path| path.strip_prefix(&start)?.split_once('/'));
        let mut folders: Vec<_> = inside.map(|(name, _)| name.to_owned()).collect();
        folders.dedup();
        folders
    }

    fn visit(&mut self, folder: &str) {
        for entry in fs::read_dir(self.root.join(folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                self.visit(&path);
            } else if kind.is_file()
                // What is not text, such as a data file kept for a test, has nothing to say here.
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                self.texts.insert(path, text);
            }
        }
    }
}
