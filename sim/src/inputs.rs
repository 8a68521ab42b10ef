//! What a run was made from, kept with it: the scenario and the files it names, so that
//! `farlink run RUN/scenario/scenario.toml` repeats it when they are gone or have changed.

use anyhow::{Context, Result};
use farlink_scenario::Scenario;
use std::path::{Component, Path, PathBuf};

/// The folder in a run's directory.
const FOLDER: &str = "scenario";

/// Copies a scenario that names files of streets, positions or contacts, and those, into a run's directory. Files with
/// a whole path are named by it in the copy, too, and not copied; neither are files that traffic sends, of which
/// only the lengths count.
///
/// # Errors
/// What cannot be read or written.
pub(crate) fn keep(scenario: &Scenario, run: &Path) -> Result<()> {
    let folder = run.join(FOLDER);
    if scenario.files.is_empty() {
        return Ok(());
    }
    let plan = scenario.plan_file.iter().map(|(file, _)| file);
    let files: Vec<&PathBuf> = scenario.files.iter().chain(plan).filter(|file| file.is_relative()).collect();
    // A scenario may name files in folders above its own: its copy stands as deep.
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

/// How many folders above its beginning a path goes at most.
fn climbs(path: &Path) -> usize {
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
