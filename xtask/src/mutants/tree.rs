//! A copy of the workspace, in which mutants are made.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::command::{Outcome, output, program, workspace_root};

/// Makes the copy what the workspace is now, with what is not committed yet. Files that are the same are left alone, so that
/// they are not built again.
pub(crate) fn refresh(copy: &Path) -> Outcome {
    let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = output(program("git").args(listed)).ok_or("git does not say which files there are")?;
    let wanted: BTreeSet<PathBuf> = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    refresh_from(workspace_root(), copy, &wanted)
        .map_err(|error| format!("{} cannot be made a copy of the workspace: {error}", copy.display()))
}

fn refresh_from(source: &Path, copy: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<()> {
    fs::create_dir_all(copy)?;
    remove_unwanted(copy, Path::new(""), wanted)?;
    for name in wanted {
        let (from, to) = (source.join(name), copy.join(name));
        // What git knows of may be deleted and not committed.
        let Ok(now) = fs::read(&from) else {
            let _ = fs::remove_file(&to);
            continue;
        };
        if fs::read(&to).is_ok_and(|before| before == now) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(copy))?;
        fs::write(&to, now)?;
    }
    Ok(())
}

fn remove_unwanted(copy: &Path, folder: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(copy.join(folder))? {
        let entry = entry?;
        let name = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            remove_unwanted(copy, &name, wanted)?;
        } else if !wanted.contains(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_what_is_there_now_and_no_mutant_of_before() {
        let folder = std::env::temp_dir().join(format!("mutants-tree-{}", std::process::id()));
        let (source, copy) = (folder.join("source"), folder.join("copy"));
        let wanted: BTreeSet<PathBuf> = ["same", "sub/changed", "deleted"].iter().map(PathBuf::from).collect();
        for (path, text) in [("source/same", "1"), ("source/sub/changed", "2"), ("copy/same", "1")].into_iter().chain([
            ("copy/sub/changed", "a mutant"),
            ("copy/sub/gone", "3"),
            ("copy/deleted", "4"),
        ]) {
            fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
            fs::write(folder.join(path), text).unwrap();
        }
        let written = fs::metadata(copy.join("same")).unwrap().modified().unwrap();
        refresh_from(&source, &copy, &wanted).unwrap();
        assert_eq!(fs::read_to_string(copy.join("sub/changed")).unwrap(), "2");
        assert_eq!(fs::metadata(copy.join("same")).unwrap().modified().unwrap(), written, "left alone");
        assert!(!copy.join("sub/gone").exists() && !copy.join("deleted").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
