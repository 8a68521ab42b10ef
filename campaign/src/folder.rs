//! The folder of a campaign in progress or finished: its description, and a folder for each cell that ended.
//!
//! | file | content |
//! |---|---|
//! | `campaign.json` | identity of the campaign, its size, and the version that wrote it |
//! | `cells/NAME/cell.json` | metrics of a cell; with `--keep-runs` its run lies beside it |
//! | `cells/.NAME` | a cell that is running, or was when its campaign was killed |
//! | `failed/NAME.txt` | reason why a cell failed |
//!
//! A cell's folder gets its name when it is complete, so every named cell is done.

use crate::measure::CellNumbers;
use crate::plan::{CampaignPlan, PlanCell};
use crate::types::CellWorld;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const ABOUT: &str = "campaign.json";
const SCHEMA: u32 = 1;

/// Description of a campaign folder, stored as `campaign.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct About {
    /// Schema version of the file.
    pub schema: u32,
    /// Name of the campaign.
    pub name: String,
    /// Path of the campaign file.
    pub campaign: PathBuf,
    /// Whether the campaign runs in its small size.
    pub small: bool,
    /// Names of the figures to run; empty for all.
    pub figures: Vec<String>,
    /// Number of runs of each point, each with its own seed.
    pub repetitions: u64,
    /// World in which cells run; absent in folders of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<CellWorld>,
    /// Whether the run directories of cells are kept.
    pub keep_runs: bool,
    /// Number of cells in the plan.
    pub cells: usize,
    /// Version of the program that created the folder.
    pub version: String,
}

/// Metrics of one cell, stored as `cell.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CellRecord {
    /// Name of the cell.
    pub cell: String,
    /// Path of the scenario file, relative to the campaign.
    pub scenario: String,
    /// Label of each axis at this point, by the name of the axis.
    pub values: BTreeMap<String, String>,
    /// Seed of the run.
    pub seed: u64,
    /// Numbers of the run.
    #[serde(flatten)]
    pub numbers: CellNumbers,
    /// Real time the cell took, in seconds.
    pub wall_s: f64,
    /// Version of the program that ran the cell.
    pub version: String,
    /// Disturbances of the run, one sentence each; empty for a clean run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<String>,
    /// Earlier runs of the cell, which were disturbed; their metrics are in no figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<DisturbedTry>,
}

/// A disturbed run of a cell that was repeated.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DisturbedTry {
    /// Disturbances of the run, one sentence each.
    pub disturbances: Vec<String>,
    /// Metrics by name; `None` where the run yields no value.
    pub metrics: BTreeMap<String, Option<f64>>,
    /// Real time the run took, in seconds.
    pub wall_s: f64,
}

impl CellRecord {
    /// Creates the record of a cell from its numbers, or from its metrics alone.
    pub fn of(
        plan: &CampaignPlan,
        cell: PlanCell,
        numbers: impl Into<CellNumbers>,
        wall_s: f64,
        version: &str,
    ) -> CellRecord {
        let configuration = &plan.configurations[cell.configuration];
        let labels = configuration.values.iter().map(|(axis, value)| {
            let axis = &plan.campaign.axes[*axis];
            (axis.name.clone(), axis.values[*value].label.clone())
        });
        CellRecord {
            cell: plan.name(cell),
            scenario: configuration.scenario.display().to_string(),
            values: labels.collect(),
            seed: cell.seed,
            numbers: numbers.into(),
            wall_s,
            version: version.to_string(),
            disturbances: Vec::new(),
            tries: Vec::new(),
        }
    }
}

/// Progress of a campaign, as found in its folder.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CampaignStatus {
    /// Description of the campaign.
    pub about: About,
    /// Number of cells that ended.
    pub done: usize,
    /// Names of failed cells, each with the reason.
    pub failed: Vec<(String, String)>,
    /// Number of cells still to be run, failed ones included.
    pub left: usize,
    /// Number of cells in the folder that belong to no point of the current plan.
    pub strangers: usize,
    /// Number of cells of the plan's points with seeds after the last repetition.
    pub surplus: usize,
    /// Number of repetitions that would include all these cells.
    pub surplus_repetitions: u64,
    /// Number of cells run by other versions of the program.
    pub other_versions: usize,
    /// Number of cells that ran more than once because they were disturbed.
    pub repeated: usize,
    /// Names of cells whose last run was disturbed, each with the first reason.
    pub disturbed: Vec<(String, String)>,
    /// Whether a process is running the campaign.
    pub running: bool,
    /// Real time of the cells that ended, in seconds.
    pub spent_s: f64,
}

/// An open campaign folder.
#[derive(Debug)]
pub struct CampaignFolder {
    path: PathBuf,
    about: About,
}

impl CampaignFolder {
    /// Creates the folder of a new campaign.
    ///
    /// # Errors
    /// When the folder exists and is not empty, or cannot be created.
    pub fn create(
        path: &Path,
        plan: &CampaignPlan,
        figures: &[String],
        keep_runs: bool,
        version: &str,
    ) -> Result<CampaignFolder> {
        if path.exists() && !path.is_dir() {
            bail!("{} is no folder\nhint: --out names a folder that is not there, or empty", path.display());
        }
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            // The folder most likely holds an interrupted campaign.
            let hint = match CampaignFolder::open(path) {
                Ok(_) => format!("`farlink campaign resume {}` goes on with it", path.display()),
                Err(_) => "--out names a folder that is not there, or empty".into(),
            };
            bail!("{} is not empty\nhint: {hint}", path.display());
        }
        let campaign = &plan.campaign;
        // A later working directory must not change the meaning of a relative path.
        let source = fs::canonicalize(&campaign.file).unwrap_or_else(|_| campaign.file.clone());
        let about = About {
            schema: SCHEMA,
            name: campaign.name.clone(),
            campaign: source,
            small: campaign.small,
            figures: figures.to_vec(),
            repetitions: campaign.repetitions,
            world: Some(campaign.world),
            keep_runs,
            cells: plan.cells().len(),
            version: version.to_string(),
        };
        for part in ["cells", "failed"] {
            fs::create_dir_all(path.join(part))
                .with_context(|| format!("cannot make {}", path.join(part).display()))?;
        }
        whole(&path.join(ABOUT), &serde_json::to_string_pretty(&about)?)?;
        Ok(CampaignFolder { path: path.to_path_buf(), about })
    }

    /// Opens the folder of an existing campaign.
    ///
    /// # Errors
    /// When it holds no campaign, or one of a newer program.
    pub fn open(path: &Path) -> Result<CampaignFolder> {
        let file = path.join(ABOUT);
        for part in [ABOUT, "cells", "failed", "lock"] {
            no_link(&path.join(part))?;
        }
        let hint = "hint: `farlink campaign run CAMPAIGN --out DIR` makes one";
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(why) => bail!("{} is no campaign that ran: {ABOUT}: {why}\n{hint}", path.display()),
        };
        let about: About = match serde_json::from_str(&text) {
            Ok(about) => about,
            Err(why) => bail!("{} is no campaign that ran: {ABOUT}: {why}\n{hint}", path.display()),
        };
        // Fields of a newer version could change the meaning of the known ones.
        if about.schema > SCHEMA {
            bail!("{} is of a newer farlink\nhint: use that one", file.display());
        }
        Ok(CampaignFolder { path: path.to_path_buf(), about })
    }

    /// Changes the path of the campaign file or the number of repetitions, and stores the change.
    ///
    /// # Errors
    /// When another process holds the lock, or the folder cannot be written.
    pub fn change(&mut self, campaign: Option<&Path>, repetitions: Option<u64>) -> Result<()> {
        // A running campaign must not be changed under its runner.
        let _lock = self.lock()?;
        if let Some(campaign) = campaign {
            self.about.campaign = fs::canonicalize(campaign).unwrap_or_else(|_| campaign.to_path_buf());
        }
        self.about.repetitions = repetitions.unwrap_or(self.about.repetitions);
        whole(&self.path.join(ABOUT), &serde_json::to_string_pretty(&self.about)?)
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Description of the campaign.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Locks the folder for this process while the returned file stays open. The system releases the lock when the
    /// process ends, even after a crash.
    ///
    /// # Errors
    /// When another process holds the lock.
    pub fn lock(&self) -> Result<File> {
        let path = self.path.join("lock");
        no_link(&path)?;
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                bail!("another farlink is at work in {}\nhint: wait for it, or stop it", self.path.display())
            }
            Err(TryLockError::Error(why)) => Err(why).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// Whether another process holds the lock.
    fn is_busy(&self) -> bool {
        let lock = File::open(self.path.join("lock"));
        // A shared lock fails exactly while a runner holds the exclusive one, and does not disturb
        // it.
        lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Removes the remains of unfinished and failed cells, which have the names of cells; whatever else lies in the
    /// folders is kept. Call it with the lock held.
    ///
    /// # Errors
    /// When a file or folder cannot be removed.
    pub fn clean(&self) -> Result<()> {
        let why = |path: &Path| format!("cannot remove {}\nhint: move it elsewhere, and resume", path.display());
        for name in self.names("cells")?.into_iter().filter(|name| is_unfinished(name)) {
            let path = self.path.join("cells").join(name);
            fs::remove_dir_all(&path).with_context(|| why(&path))?;
        }
        for name in self.names("failed")?.into_iter().filter(|name| failed_cell(name).is_some()) {
            let path = self.path.join("failed").join(name);
            fs::remove_file(&path).with_context(|| why(&path))?;
        }
        Ok(())
    }

    /// Creates an empty folder for a cell that starts.
    pub(crate) fn begin(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join("cells").join(format!(".{name}"));
        // Remains of an interrupted run of the same cell.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }
    /// Renames the folder of a disturbed run of a cell to that of try `number`, and creates an empty folder for the
    /// next run.
    pub(crate) fn set_aside(&self, running: &Path, name: &str, number: usize) -> Result<()> {
        // The name begins with a dot, so that `clean` removes the folder if the campaign is interrupted.
        let aside = self.aside(name, number);
        let _ = fs::remove_dir_all(&aside);
        fs::rename(running, &aside).with_context(|| format!("cannot name {}", aside.display()))?;
        fs::create_dir_all(running).with_context(|| format!("cannot make {}", running.display()))
    }
    /// Restores the run of try `number`, and removes the repetition of it that failed.
    pub(crate) fn take_back(&self, running: &Path, name: &str, number: usize) -> Result<()> {
        let _ = fs::remove_dir_all(running);
        fs::rename(self.aside(name, number), running).with_context(|| format!("cannot name {}", running.display()))
    }
    fn aside(&self, name: &str, number: usize) -> PathBuf {
        self.path.join("cells").join(format!(".{name}.try{number}"))
    }
    /// Completes a cell: writes its record, deletes its run unless it is to be kept, and renames the folder to its
    /// final name.
    pub(crate) fn end(&self, running: &Path, record: &CellRecord) -> Result<()> {
        if !self.about.keep_runs {
            fs::remove_dir_all(running).and_then(|()| fs::create_dir_all(running))?;
        }
        for number in 1..=record.tries.len() {
            let aside = self.aside(&record.cell, number);
            if !self.about.keep_runs {
                let _ = fs::remove_dir_all(&aside);
                continue;
            }
            let tries = running.join("tries");
            fs::create_dir_all(&tries).and_then(|()| fs::rename(&aside, tries.join(number.to_string())))?;
        }
        // The rename comes last, so that a named folder always holds a complete record.
        whole(&running.join("cell.json"), &serde_json::to_string_pretty(record)?)?;
        let path = self.path.join("cells").join(&record.cell);
        fs::rename(running, &path).with_context(|| format!("cannot name {}", path.display()))
    }
    /// As [`CampaignFolder::end`], but replaces an earlier result of the cell. A cell with a result runs again if the
    /// result lacks a distribution that a figure shows.
    pub(crate) fn end_again(&self, running: &Path, record: &CellRecord) -> Result<()> {
        let _ = fs::remove_dir_all(self.path.join("cells").join(&record.cell));
        self.end(running, record)
    }
    /// Stores the record of a cell that ran elsewhere. Call it with the lock held.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn put(&self, record: &CellRecord) -> Result<()> {
        let running = self.begin(&record.cell)?;
        self.end(&running, record)
    }
    /// Removes the folder of a cell that was stopped; a later run starts it again.
    pub(crate) fn drop_cell(&self, running: &Path) {
        let _ = fs::remove_dir_all(running);
    }
    /// Stores the reason why a cell failed.
    pub fn fail(&self, name: &str, why: &str) {
        let _ = fs::create_dir_all(self.path.join("failed"));
        let _ = whole(&self.path.join("failed").join(format!("{name}.txt")), &format!("{why}\n"));
    }

    fn names(&self, part: &str) -> Result<Vec<String>> {
        let path = self.path.join(part);
        no_link(&path)?;
        if !path.exists() {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))? {
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Reads the record of a cell; `None` if it is still to be run.
    ///
    /// # Errors
    /// When the file is damaged, or belongs to another cell.
    pub fn record(&self, name: &str) -> Result<Option<CellRecord>> {
        let folder = self.path.join("cells").join(name);
        let path = folder.join("cell.json");
        no_link(&folder)?;
        no_link(&path)?;
        let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
        let record: CellRecord = serde_json::from_str(&text).map_err(|why| {
            anyhow::anyhow!("{} is damaged: {why}\nhint: remove {}, and resume", path.display(), folder.display())
        })?;
        // A copied folder would otherwise count as the result of another cell.
        if record.cell != name {
            bail!("{} is of {}\nhint: remove {}, and resume", path.display(), record.cell, folder.display());
        }
        Ok(Some(record))
    }
    /// Reads the records of those cells of a plan that ended.
    ///
    /// # Errors
    /// When a file is damaged.
    pub fn records(&self, plan: &CampaignPlan) -> Result<Vec<(PlanCell, CellRecord)>> {
        let mut records = Vec::new();
        for cell in plan.cells() {
            records.extend(self.record(&plan.name(cell))?.map(|record| (cell, record)));
        }
        Ok(records)
    }

    /// Computes the progress relative to the current plan; `version` is that of this program.
    ///
    /// # Errors
    /// When a file is damaged or unreadable.
    pub fn status(&self, plan: &CampaignPlan, version: &str) -> Result<CampaignStatus> {
        let names: BTreeSet<String> = plan.cells().into_iter().map(|cell| plan.name(cell)).collect();
        let (records, samples) = (self.records(plan)?, plan.campaign.samples());
        let done = records.iter().filter(|(_, record)| record.numbers.has_all(&samples)).count();
        let there = self.names("cells")?.into_iter().filter(|name| !name.starts_with('.') && !names.contains(name));
        let points: BTreeSet<(&str, u32)> =
            plan.configurations.iter().map(|point| (point.name.as_str(), point.hash as u32)).collect();
        // Cells of these points with seeds before the first are of a campaign with another first seed.
        let (surplus, strangers): (Vec<String>, Vec<String>) = there.partition(|name| {
            parts_of(name)
                .is_some_and(|(point, seed, hash)| points.contains(&(point, hash)) && seed >= plan.campaign.first_seed)
        });
        let seeds = surplus.iter().filter_map(|name| Some(parts_of(name)?.1));
        let surplus_repetitions = seeds.max().map_or(0, |seed| seed - plan.campaign.first_seed + 1);
        let why = |name: &String| fs::read_to_string(self.path.join("failed").join(name)).unwrap_or_default();
        let failed = self.names("failed")?.into_iter().filter_map(|name| {
            let cell = failed_cell(&name)?.to_string();
            Some((cell, why(&name).trim_end().to_string()))
        });
        Ok(CampaignStatus {
            about: self.about.clone(),
            done,
            failed: failed.collect(),
            left: names.len() - done,
            strangers: strangers.len(),
            surplus: surplus.len(),
            surplus_repetitions,
            other_versions: records.iter().filter(|(_, record)| record.version != version).count(),
            repeated: records.iter().filter(|(_, record)| !record.tries.is_empty()).count(),
            disturbed: records
                .iter()
                .filter_map(|(_, record)| Some((record.cell.clone(), record.disturbances.first()?.clone())))
                .collect(),
            running: self.is_busy(),
            spent_s: records.iter().map(|(_, record)| record.wall_s).sum(),
        })
    }
}

/// Splits the name of a cell into that of its point, the seed, and the hash ([`CampaignPlan::name`]); `None` for other
/// names.
fn parts_of(name: &str) -> Option<(&str, u64, u32)> {
    let (rest, hash) = name.rsplit_once('_')?;
    let (point, seed) = rest.rsplit_once("_s")?;
    let is_hex = hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((point, seed.parse().ok()?, u32::from_str_radix(hash, 16).ok().filter(|_| is_hex)?))
}

/// Whether this is the name of a folder in `cells` whose cell did not end: `.NAME`, or `.NAME.try1` of a disturbed run.
fn is_unfinished(name: &str) -> bool {
    let Some(cell) = name.strip_prefix('.') else { return false };
    let cell = match cell.rsplit_once(".try") {
        Some((cell, number)) if number.parse::<u64>().is_ok() => cell,
        _ => cell,
    };
    parts_of(cell).is_some()
}

/// Cell that failed, by the name of a file in `failed`: `NAME.txt`, or `NAME.new` while it is written.
fn failed_cell(file: &str) -> Option<&str> {
    let cell = file.strip_suffix(".txt").or_else(|| file.strip_suffix(".new"))?;
    parts_of(cell).map(|_| cell)
}

/// Fails if a path is a symbolic link: everything read, written or removed here must lie in the folder.
fn no_link(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => bail!(
            "{} is a symbolic link, and what a campaign reads and removes must lie in its own folder\n\
             hint: put what it points to in its place",
            path.display()
        ),
        _ => Ok(()),
    }
}

/// Writes a file atomically and durably: it is synced before it gets its name. Symbolic links are replaced, never
/// followed.
pub(crate) fn whole(path: &Path, text: &str) -> Result<()> {
    let beside = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        // A stale temporary file may be a link, and `create_new` below refuses to follow one.
        match fs::remove_file(&beside) {
            Err(why) if why.kind() != ErrorKind::NotFound => return Err(why),
            _ => {}
        }
        let mut file = File::create_new(&beside)?;
        file.write_all(text.as_bytes())?;
        // The rename must not reach the disk before the contents.
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
