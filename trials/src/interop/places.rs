//! Search for peers installed by hand: in a folder of their own below `FARLINK_PEERS`, or on the PATH.

use anyhow::{Result, bail};
use std::path::PathBuf;

/// Environment variable with the folder that holds a folder for each peer.
pub const FOLDER: &str = "FARLINK_PEERS";

/// Folder that holds all these programs: `FARLINK_PEERS/NAME/bin`, `FARLINK_PEERS/NAME`, or one of the PATH.
///
/// # Errors
/// When no folder holds all programs.
pub fn find(name: &str, programs: &[&str]) -> Result<PathBuf> {
    let own = std::env::var_os(FOLDER).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    within(own, std::env::split_paths(&path).collect(), name, programs)
}

fn within(own: Option<PathBuf>, path: Vec<PathBuf>, name: &str, programs: &[&str]) -> Result<PathBuf> {
    let own = own.into_iter().flat_map(|folder| [folder.join(name).join("bin"), folder.join(name)]);
    // A folder with only some of the programs may be another implementation's.
    let complete = |folder: &PathBuf| programs.iter().all(|program| folder.join(program).is_file());
    match own.chain(path).find(complete) {
        Some(folder) => Ok(std::path::absolute(folder)?),
        None => bail!("no {} in {FOLDER}/{name} nor on the PATH", named(programs)),
    }
}

fn named(programs: &[&str]) -> String {
    programs.iter().map(|program| format!("`{program}`")).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_folder_precedes_path() {
        let dir = tempfile::tempdir().unwrap();
        let folder = |name: &str, programs: &[&str]| {
            let folder = dir.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            programs.iter().for_each(|program| std::fs::write(folder.join(program), "").unwrap());
            folder
        };
        let (path, half) = (folder("usr", &["a", "b"]), folder("peers/half", &["a"]));
        let (flat, deep) = (folder("peers/flat", &["a", "b"]), folder("peers/deep/bin", &["a", "b"]));
        let found =
            |name: &str| within(Some(dir.path().join("peers")), vec![half.clone(), path.clone()], name, &["a", "b"]);
        assert_eq!(found("flat").unwrap(), flat);
        assert_eq!(found("deep").unwrap(), deep);
        assert_eq!(found("half").unwrap(), path);
        assert_eq!(within(None, vec![path.clone()], "flat", &["a"]).unwrap(), path);
        let why = within(None, vec![half], "x", &["a", "b"]).unwrap_err().to_string();
        assert!(why.contains("`a` and `b`") && why.contains("FARLINK_PEERS/x"), "{why}");
    }
}
