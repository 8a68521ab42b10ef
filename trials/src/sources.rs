//! Rust files below a folder.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Calls `found` for every Rust file below a folder, except in folders that `enter` refuses.
///
/// # Errors
/// When a folder cannot be read, or `found` fails.
pub fn each_source(
    root: &Path,
    enter: &dyn Fn(&Path) -> bool,
    found: &mut dyn FnMut(&PathBuf) -> Result<()>,
) -> Result<()> {
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            // A link could lead out of the tree, or in circles.
            if path.is_dir() && !path.is_symlink() {
                folders.extend(enter(&path).then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found(&path)?;
            }
        }
    }
    Ok(())
}
