//! Copy of a run's inputs: the scenario and the files it names, so that `farlink run RUN/scenario/scenario.toml`
//! repeats the run even if they change or disappear.

use anyhow::{Context, Result};
use farlink_scenario::Scenario;
use std::path::{Component, Path, PathBuf};

/// Folder within the run directory.
const FOLDER: &str = "scenario";

/// Copies a scenario that names files (streets, positions, contacts) with these files into the run directory. Files
/// with absolute paths are not copied and keep their paths; files that traffic sends are not copied either, since only
/// their lengths count.
///
/// # Errors
/// Fails on a file that cannot be read or written.
pub(crate) fn keep(scenario: &Scenario, run: &Path) -> Result<()> {
    let folder = run.join(FOLDER);
    if scenario.files.is_empty() {
        return Ok(());
    }
    let plan = scenario.plan_file.iter().map(|(file, _)| file);
    let files: Vec<&PathBuf> = scenario.files.iter().chain(plan).filter(|file| file.is_relative()).collect();
    // Files may lie in folders above the scenario's: the copy of the scenario is nested as deep.
    let above = files.iter().map(|file| climbs(file)).max().unwrap_or(0);
    let mut own = folder;
    own.extend(std::iter::repeat_n("in", above));
    write(&own.join("scenario.toml"), scenario.text.as_bytes())?;
    for file in files {
        let from = scenario.folder.join(file);
        let content = std::fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        write(&own.join(file), &content)?;
    }
    Ok(())
}

fn climbs(path: &Path) -> usize {
    // The lowest level that the path reaches, counted from its beginning.
    let (mut depth, mut least) = (0i64, 0i64);
    for component in path.components() {
        match component {
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
        least = least.min(depth);
    }
    usize::try_from(-least).unwrap_or(0)
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    let into = path.parent().unwrap_or(path);
    std::fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn climb_counts_levels_above_folder() {
        let climbs = |path: &str| climbs(Path::new(path));
        assert_eq!(["a/b", "../a", "a/../b", "a/../../b", "../../x/../y"].map(climbs), [0, 1, 0, 1, 2]);
    }
}
