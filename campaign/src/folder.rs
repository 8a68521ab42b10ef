//! The folder of a campaign that runs or ran: what it is of, and a folder for each cell that ended.
//!
//! | file | what |
//! |---|---|
//! | `campaign.json` | which campaign, which size, and who wrote it |
//! | `cells/NAME/cell.json` | the numbers of a cell; with `--keep-runs` its run lies beside it |
//! | `cells/.NAME` | a cell that is running, or was as its campaign was killed |
//! | `failed/NAME.txt` | why a cell failed |
//!
//! A cell's folder gets its name when it is whole: what is there is done.

use crate::plan::{Cell, Plan};
use crate::types::World;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const ABOUT: &str = "campaign.json";
const SCHEMA: u32 = 1;

/// What a folder is of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct About {
    /// Version of this file.
    pub schema: u32,
    /// The campaign's name.
    pub name: String,
    /// Its file.
    pub campaign: PathBuf,
    /// Whether it is the small size.
    pub small: bool,
    /// Only these figures; empty: all.
    pub figures: Vec<String>,
    /// Runs of each point.
    pub repetitions: u64,
    /// Where cells run, where that was said when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<World>,
    /// Whether the runs of cells are kept.
    pub keep_runs: bool,
    /// How many cells it has.
    pub cells: usize,
    /// The program that began it.
    pub version: String,
}

/// What came of a cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub cell: String,
    /// The scenario's file.
    pub scenario: String,
    /// Labels at which axes stood.
    pub values: BTreeMap<String, String>,
    /// Its seed.
    pub seed: u64,
    /// Its numbers; absent where it has none.
    pub metrics: BTreeMap<String, Option<f64>>,
    /// Real time it took, in seconds.
    pub wall_s: f64,
    /// The program that ran it.
    pub version: String,
}

impl Record {
    /// Of a cell of a plan, with its numbers.
    pub fn of(plan: &Plan, cell: Cell, metrics: BTreeMap<String, Option<f64>>, wall_s: f64, version: &str) -> Record {
        let configuration = &plan.configurations[cell.configuration];
        let labels = configuration.values.iter().map(|(axis, value)| {
            let axis = &plan.campaign.axes[*axis];
            (axis.name.clone(), axis.values[*value].label.clone())
        });
        Record {
            cell: plan.name(cell),
            scenario: configuration.scenario.display().to_string(),
            values: labels.collect(),
            seed: cell.seed,
            metrics,
            wall_s,
            version: version.to_string(),
        }
    }
}

/// How far a campaign is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Status {
    /// What it is of.
    pub about: About,
    /// Cells that ended.
    pub done: usize,
    /// Cells that failed, each with the reason.
    pub failed: Vec<(String, String)>,
    /// Cells that are still to be run, those that failed included.
    pub left: usize,
    /// Cells that no point of the campaign has, as it is now.
    pub strangers: usize,
    /// Cells run by other versions of the program than this.
    pub other_versions: usize,
    /// Whether somebody is at work there.
    pub running: bool,
    /// Real time of the cells that ended, in seconds.
    pub spent_s: f64,
}

/// The folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    about: About,
}

impl Folder {
    /// Makes the folder of a campaign that begins.
    ///
    /// # Errors
    /// When it is there and not empty, or cannot be made.
    pub fn create(path: &Path, plan: &Plan, figures: &[String], keep_runs: bool, version: &str) -> Result<Folder> {
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            let hint = match Folder::open(path) {
                Ok(_) => format!("`farlink campaign resume {}` goes on with it", path.display()),
                Err(_) => "--out names a folder that is not there, or empty".into(),
            };
            bail!("{} is not empty\nhint: {hint}", path.display());
        }
        let campaign = &plan.campaign;
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
        Ok(Folder { path: path.to_path_buf(), about })
    }

    /// Opens the folder of a campaign that began.
    ///
    /// # Errors
    /// When it is none, or of a newer program.
    pub fn open(path: &Path) -> Result<Folder> {
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
        if about.schema > SCHEMA {
            bail!("{} is of a newer farlink\nhint: use that one", file.display());
        }
        Ok(Folder { path: path.to_path_buf(), about })
    }

    /// Says anew what it is of: where its campaign lies now, how often points are run. Kept from now on.
    ///
    /// # Errors
    /// When another process has the folder, or it cannot be written.
    pub fn change(&mut self, campaign: Option<&Path>, repetitions: Option<u64>) -> Result<()> {
        let _lock = self.lock()?;
        if let Some(campaign) = campaign {
            self.about.campaign = fs::canonicalize(campaign).unwrap_or_else(|_| campaign.to_path_buf());
        }
        self.about.repetitions = repetitions.unwrap_or(self.about.repetitions);
        whole(&self.path.join(ABOUT), &serde_json::to_string_pretty(&self.about)?)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// What it is of.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Takes the folder for this process, as long as what is given back is kept; the system lets go of it
    /// when the process ends, however it ends.
    ///
    /// # Errors
    /// When another process has it.
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

    /// Whether a process is at work here.
    fn is_busy(&self) -> bool {
        let lock = File::open(self.path.join("lock"));
        lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Throws away what cells left that had not ended. Only with the lock.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn clean(&self) -> Result<()> {
        for name in self.names("cells")?.into_iter().filter(|name| name.starts_with('.')) {
            let path = self.path.join("cells").join(name);
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        for name in self.names("failed")? {
            fs::remove_file(self.path.join("failed").join(name))?;
        }
        Ok(())
    }

    /// The folder of a cell that begins, new and empty.
    pub(crate) fn begin(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join("cells").join(format!(".{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }
    /// A cell has ended: its numbers are written, its run thrown away if it is not to be kept, and then the
    /// folder gets its name.
    pub(crate) fn end(&self, running: &Path, record: &Record) -> Result<()> {
        if !self.about.keep_runs {
            fs::remove_dir_all(running).and_then(|()| fs::create_dir_all(running))?;
        }
        whole(&running.join("cell.json"), &serde_json::to_string_pretty(record)?)?;
        let path = self.path.join("cells").join(&record.cell);
        fs::rename(running, &path).with_context(|| format!("cannot name {}", path.display()))
    }
    /// What came of a cell that ran elsewhere. Only with the lock.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, record: &Record) -> Result<()> {
        let running = self.begin(&record.cell)?;
        self.end(&running, record)
    }
    /// A cell did not end, and is to be run again.
    pub(crate) fn drop_cell(&self, running: &Path) {
        let _ = fs::remove_dir_all(running);
    }
    /// A cell failed, for this reason.
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

    /// What came of a cell; `None`: it is still to be run.
    ///
    /// # Errors
    /// When its file is damaged.
    pub fn record(&self, name: &str) -> Result<Option<Record>> {
        let folder = self.path.join("cells").join(name);
        let path = folder.join("cell.json");
        no_link(&folder)?;
        no_link(&path)?;
        let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
        let record: Record = serde_json::from_str(&text).map_err(|why| {
            anyhow::anyhow!("{} is damaged: {why}\nhint: remove {}, and resume", path.display(), folder.display())
        })?;
        if record.cell != name {
            bail!("{} is of {}\nhint: remove {}, and resume", path.display(), record.cell, folder.display());
        }
        Ok(Some(record))
    }
    /// What came of the cells of a plan, as far as they ended.
    ///
    /// # Errors
    /// When a file is damaged.
    pub fn records(&self, plan: &Plan) -> Result<Vec<(Cell, Record)>> {
        let mut records = Vec::new();
        for cell in plan.cells() {
            records.extend(self.record(&plan.name(cell))?.map(|record| (cell, record)));
        }
        Ok(records)
    }

    /// How far it is, by the campaign as it is now.
    ///
    /// # Errors
    /// When a file is damaged or cannot be read.
    pub fn status(&self, plan: &Plan, version: &str) -> Result<Status> {
        let names: BTreeSet<String> = plan.cells().into_iter().map(|cell| plan.name(cell)).collect();
        let records = self.records(plan)?;
        let there = self.names("cells")?.into_iter().filter(|name| !name.starts_with('.'));
        let why = |name: &String| fs::read_to_string(self.path.join("failed").join(name)).unwrap_or_default();
        let failed = self
            .names("failed")?
            .into_iter()
            .map(|name| (name.trim_end_matches(".txt").to_string(), why(&name).trim_end().to_string()));
        Ok(Status {
            about: self.about.clone(),
            done: records.len(),
            failed: failed.collect(),
            left: names.len() - records.len(),
            strangers: there.filter(|name| !names.contains(name)).count(),
            other_versions: records.iter().filter(|(_, record)| record.version != version).count(),
            running: self.is_busy(),
            spent_s: records.iter().map(|(_, record)| record.wall_s).sum(),
        })
    }
}

/// Fails where a path is a symbolic link: what is read, written and removed here lies in the folder.
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

/// Writes a file whole or not at all, and on the disk before it has its name. Links are replaced, never followed.
pub(crate) fn whole(path: &Path, text: &str) -> Result<()> {
    let beside = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        match fs::remove_file(&beside) {
            Err(why) if why.kind() != ErrorKind::NotFound => return Err(why),
            _ => {}
        }
        let mut file = File::create_new(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
