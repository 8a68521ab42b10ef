//! Runs of scenarios as real processes: sets up hosts, links, nodes and applications, runs them, takes them down, and
//! writes a run directory like that of a simulation.

mod baseline;
mod crew;
mod flows;
mod folder;
mod hosts;
mod nodes;
mod outages;
mod outcome;
mod phases;
mod record;
mod restarts;
mod retention;
mod session;
mod there;
mod usage;
mod zero_work;

use anyhow::{Context, Result};
use farlink_report::{Manifest, RunWorld, RunWriter, Topology};
use farlink_scenario::Scenario;
use folder::RunFolder;
use session::LabSession;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of [`run`].
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Path of the run directory.
    pub folder: PathBuf,
    /// Command line that repeats the run, for the manifest.
    pub command: String,
    /// Path of the `farlink` program, which contains the supervisor, the node and the applications.
    pub program: PathBuf,
    /// Flag that the caller sets to stop the run, which is then written as far as it got.
    pub stop: Arc<AtomicBool>,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabProgress {
    /// Current phase: `setting up`, what is done with another machine, `running` or `collecting`.
    pub phase: &'static str,
    /// Seconds since the start of the run.
    pub elapsed_s: f64,
    /// Scenario's limit of the duration, in seconds.
    pub duration_s: f64,
    /// Number of bundles created so far.
    pub created: u64,
    /// Number of bundles delivered so far.
    pub delivered: u64,
}

/// Runs a scenario in the testbed, writes its run directory, and returns the path. The calling thread must live as long
/// as the run: when it ends, the kernel ends the run.
///
/// # Errors
/// If the scenario needs a simulation, or the run fails; the message has the last lines of the logs. The run directory
/// is kept.
pub fn run(scenario: &Scenario, options: &LabOptions, progress: &mut dyn FnMut(LabProgress)) -> Result<PathBuf> {
    // The wall time of a run includes setting up and collecting.
    let begun = std::time::Instant::now();
    // Some scenarios need a simulation, for instance those with radios.
    if let Some(error) = scenario.needs_oracle().or_else(|| scenario.needs_simulation()) {
        anyhow::bail!("{error}");
    }
    baseline::check(scenario)?;
    let duration_s = scenario.duration.as_secs_f64();
    let mut set_up = |phase| progress(LabProgress { phase, duration_s, ..LabProgress::default() });
    set_up("setting up");
    let writer = RunWriter::create(&options.folder, manifest(scenario, options)?)?;
    let folder = RunFolder::create(&options.folder, scenario)?;
    let explain = |error: anyhow::Error| folder.explain(error);
    let session = LabSession::start(scenario, options, &folder, &mut set_up).map_err(explain)?;
    let outcome = session.run(&options.stop, progress).map_err(explain)?;
    progress(LabProgress { phase: "collecting", ..outcome.progress });
    // Compared before `tidy` removes files that arrived intact.
    let files = folder.compare_files(scenario)?;
    let done = record::write(scenario, writer, outcome, &folder, files.clone(), begun).map_err(explain)?;
    folder.tidy(&files)?;
    Ok(done)
}

fn manifest(scenario: &Scenario, options: &LabOptions) -> Result<Manifest> {
    let plan = scenario.plan_file.as_ref().map(|(_, text)| text.as_str());
    let mut manifest = Manifest::new(RunWorld::Lab, &scenario.name, &scenario.text, plan);
    manifest.description = scenario.description.clone();
    manifest.seed = scenario.seed;
    manifest.duration_limit_s = scenario.duration.as_secs_f64();
    manifest.topology = Topology::from_json(&scenario.topology_json())?;
    manifest.expect.delivery_ratio = scenario.expect.delivery_ratio;
    manifest.expect.finished_within_s = scenario.expect.finished_within.map(|d| d.as_secs_f64());
    manifest.expect.wall_time_lab_s = scenario.expect.wall_time_lab.map(|d| d.as_secs_f64());
    manifest.command = options.command.clone();
    manifest.host = host();
    Ok(manifest)
}

/// Reads facts about the machine from `/proc`.
fn host() -> farlink_report::Host {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|l| l.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let kilobytes: u64 = memory.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
    farlink_report::Host {
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cpus: farlink_os::schedule::processors() as u32,
        memory_bytes: kilobytes * 1024,
    }
}

/// Makes a path absolute, because processes of the run start in other folders, and free of `..`, because other machines
/// keep files under their paths here.
fn absolute(path: &Path) -> Result<PathBuf> {
    // The parent of a file name without a folder is the empty path.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let path = std::path::absolute(path).with_context(|| format!("the path {}", path.display()))?;
    if !path.components().any(|part| part == Component::ParentDir) {
        return Ok(path);
    }
    // What is behind `..` depends on symbolic links, if it exists.
    Ok(path.canonicalize().unwrap_or_else(|_| {
        let mut clean = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => drop(clean.pop()),
                part => clean.push(part),
            }
        }
        clean
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_have_no_parent() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        std::fs::create_dir(here.join("a")).unwrap();
        std::fs::write(here.join("file"), "").unwrap();
        assert_eq!(absolute(&here.join("a/../file")).unwrap(), here.join("file"));
        assert_eq!(absolute(&here.join("none/../../x")).unwrap(), here.parent().unwrap().join("x"));
        std::os::unix::fs::symlink("/usr", here.join("link")).unwrap();
        assert_eq!(absolute(&here.join("link/../etc")).unwrap(), Path::new("/etc"));
        assert_eq!(absolute(&here.join("link")).unwrap(), here.join("link"));
    }
}
