//! Logs of The ONE for settings files: run in a checkout of it, reduced to SHA-256, compared with ours byte for byte.

use super::difference;
use crate::tools;
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Settings of the repository, each read over `base.txt`.
const SETTINGS: &str = "one/tests/data/logs";
/// Settings that the others have in common.
const BASE: &str = "base.txt";
/// Hashes of all reports, as `sha256sum` writes them.
const HASHES: &str = "sha256.txt";
/// Jar files of a checkout, which compiling it needs, too.
const JARS: [&str; 2] = ["lib/ECLA.jar", "lib/DTNConsoleConnection.jar"];

/// Runs the settings of the repository in a checkout of The ONE and writes their hashes; or compares `files` only.
///
/// # Errors
/// When a run fails, or when a report of ours differs.
pub fn make(checkout: &str, files: &[&str]) -> Result<()> {
    let checkout = Path::new(checkout).canonicalize().with_context(|| format!("{checkout} is no folder"))?;
    if !checkout.join("target/core/DTNSim.class").is_file() {
        tools::run(Command::new("sh").current_dir(&checkout).arg("compile.sh")).context("compiling needs a JDK")?;
    }
    let work = MakeWork { checkout, farlink: tools::farlink()?.canonicalize()?, out: tools::target().join("one-logs") };
    let folder = tools::root().join(SETTINGS);
    let (mut hashes, mut differ) = (String::new(), Vec::new());
    let settings = if files.is_empty() { numbered(&folder)? } else { files.iter().map(PathBuf::from).collect() };
    for file in &settings {
        let file = file.canonicalize().with_context(|| format!("{} is no file", file.display()))?;
        let base = if files.is_empty() { vec![BASE.into()] } else { Vec::new() };
        let reports = work.reports(&base, &file).with_context(|| file.display().to_string())?;
        for (name, theirs, ours) in reports {
            hashes += &format!("{}  {name}\n", sha256(&theirs));
            let told = (ours != theirs).then(|| difference(&name, &ours, &theirs));
            println!("{name}: {}", told.as_deref().unwrap_or("equal"));
            differ.extend(told);
        }
    }
    if files.is_empty() {
        std::fs::write(folder.join(HASHES), hashes)?;
    }
    if differ.is_empty() { Ok(()) } else { bail!("{} reports differ", differ.len()) }
}

/// Numbered settings of a folder, in order.
fn numbered(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    let digit = |file: &PathBuf| file.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
    files.retain(|file| digit(file) && file.extension().is_some_and(|ending| ending == "txt"));
    files.sort();
    Ok(files)
}

/// Number of runs that settings describe: of seeds `[1; 2; 3]` three.
fn runs(settings: &str) -> usize {
    let seeds = settings.lines().find_map(|line| line.strip_prefix("MovementModel.rngSeed = ["));
    seeds.map_or(1, |seeds| seeds.split(';').count())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Name of a report, as The ONE writes it, and as we do.
type ReportPair = (String, Vec<u8>, Vec<u8>);

struct MakeWork {
    checkout: PathBuf,
    farlink: PathBuf,
    out: PathBuf,
}

impl MakeWork {
    /// Runs settings in both simulators and returns their reports.
    fn reports(&self, base: &[PathBuf], file: &Path) -> Result<Vec<ReportPair>> {
        let [theirs, ours] = ["theirs", "ours"].map(|name| self.out.join(name));
        for folder in [&theirs, &ours] {
            // Reports of an earlier run must not be taken for those of this one.
            if folder.exists() {
                std::fs::remove_dir_all(folder)?;
            }
            std::fs::create_dir_all(folder)?;
        }
        // Another settings file moves the reports, which the settings put beside themselves.
        let moved = self.out.join("moved.txt");
        std::fs::write(&moved, format!("Report.reportDir = {}\n", theirs.display()))?;
        let beside = file.parent().context("a file is in a folder")?;
        let jars = JARS.map(|jar| self.checkout.join(jar).display().to_string()).join(":");
        let path = format!("{}:{jars}", self.checkout.join("target").display());
        let runs = runs(&std::fs::read_to_string(file)?).to_string();
        let mut java = Command::new("java");
        java.current_dir(beside).args(["-cp", &path, "core.DTNSim", "-b", &runs]).args(base).arg(file).arg(&moved);
        tools::run(java.stdout(Stdio::null()))?;
        let mut farlink = Command::new(&self.farlink);
        farlink.current_dir(beside).args(["one", "--mode", "exact", "-b", &runs]).args(base).arg(file);
        farlink.arg("--out").arg(&ours);
        tools::run(farlink.stdout(Stdio::null()))?;
        let mut names: Vec<String> = std::fs::read_dir(&theirs)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        names.sort();
        if names.is_empty() {
            bail!("The ONE wrote no reports");
        }
        // A report of ours that is missing counts as empty.
        let read = |name: String| {
            let pair = (std::fs::read(theirs.join(&name))?, std::fs::read(ours.join(&name)).unwrap_or_default());
            Ok((name, pair.0, pair.1))
        };
        names.into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_hashes_cover_all_settings() {
        let folder = tools::root().join(SETTINGS);
        let hashes = std::fs::read_to_string(folder.join(HASHES)).unwrap();
        let settings = numbered(&folder).unwrap();
        assert!(settings.len() >= 40);
        for file in settings {
            let runs = runs(&std::fs::read_to_string(&file).unwrap());
            let begin = format!("  {}", file.file_stem().unwrap().to_string_lossy());
            let logs = hashes.lines().filter(|line| line.contains(&begin) && line.ends_with("_EventLogReport.txt"));
            assert_eq!(logs.count(), runs, "{begin}");
        }
        assert_eq!((runs("x = [1;2]"), runs("a = 1\nMovementModel.rngSeed = [1; 2;3]\n")), (1, 3));
        // FIPS 180-4, the digest of "abc".
        assert!(sha256(b"abc").starts_with("ba7816bf8f01cfea") && sha256(b"abc").len() == 64);
    }
}
