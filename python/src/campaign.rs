//! Folder of a campaign whose cells run on other machines: cells still to run, and results.

use crate::VERSION;
use crate::errors::{failure, mistake, mistakes};
use farlink_campaign::{
    Campaign as Study, CampaignFolder, CampaignPlan, CellRecord, CellWorld, Figure, PlanCell, Results,
};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Campaign that runs, or ran, in a folder.
#[pyclass(module = "farlink._engine")]
pub struct Campaign {
    plan: CampaignPlan,
    folder: CampaignFolder,
    /// Cells of the campaign, by name.
    cells: BTreeMap<String, PlanCell>,
    lock: Option<File>,
}

/// Everything that a machine needs to run a cell: the cell's name, the scenario's text, the seed, and the contents of
/// the files that the text names, by path.
type Work = (String, String, u64, BTreeMap<String, Vec<u8>>);

fn plan_of(
    py: Python<'_>,
    path: &Path,
    small: bool,
    only: &[String],
    repetitions: Option<u64>,
) -> PyResult<CampaignPlan> {
    let wrong = |list: Vec<_>| mistakes(py, &path.display().to_string(), &list);
    let study = Study::load(path).map_err(wrong)?;
    let study = if small { study.smaller() } else { study };
    let study = study.only(only).map_err(mistake)?;
    let study = match repetitions {
        Some(count) => study.repeated(count),
        None => study,
    };
    if study.figures.is_empty() {
        return Err(mistake("no figure is left to run\nhint: `only` may name none that [smoke] leaves out"));
    }
    // A testbed is one machine, so its cells cannot be spread over a cluster.
    if study.world == CellWorld::Lab {
        return Err(mistake("cells of a testbed run on one machine\nhint: `farlink campaign run`, without `--on`"));
    }
    // Another machine returns metrics of the whole run only, not those of a phase or node, nor distributions.
    if let Some(shown) = study.figures.iter().flat_map(Figure::shown).find(|shown| shown.is_narrow()) {
        let what = format!("`{}` is kept on the machine that runs the campaign", shown.title());
        return Err(mistake(format!("{what}\nhint: `farlink campaign run`, without `--on`")));
    }
    CampaignPlan::new(study).map_err(wrong)
}

impl Campaign {
    fn new(plan: CampaignPlan, folder: CampaignFolder) -> Campaign {
        let cells = plan.cells().into_iter().map(|cell| (plan.name(cell), cell)).collect();
        Campaign { plan, folder, cells, lock: None }
    }
    fn cell(&self, name: &str) -> PyResult<PlanCell> {
        self.cells.get(name).copied().ok_or_else(|| mistake(format!("the campaign has no cell `{name}`")))
    }
}

#[pymethods]
impl Campaign {
    /// Begins a campaign in a folder that must be missing or empty.
    #[staticmethod]
    #[pyo3(signature = (path, out, small, only, repetitions = None))]
    fn begin(
        py: Python<'_>,
        path: PathBuf,
        out: PathBuf,
        small: bool,
        only: Vec<String>,
        repetitions: Option<u64>,
    ) -> PyResult<Campaign> {
        let plan = plan_of(py, &path, small, &only, repetitions)?;
        let folder =
            CampaignFolder::create(&out, &plan, &only, false, VERSION).map_err(|why| mistake(format!("{why:#}")))?;
        Ok(Campaign::new(plan, folder))
    }
    /// Opens a campaign that began earlier.
    #[staticmethod]
    fn open(py: Python<'_>, folder: PathBuf) -> PyResult<Campaign> {
        let folder = CampaignFolder::open(&folder).map_err(|why| mistake(format!("{why:#}")))?;
        let about = folder.about().clone();
        // The runs of other machines would have to be copied to this one.
        if about.keep_runs {
            return Err(mistake(
                "its cells keep their runs, which stay where they ran\nhint: resume it without `--on`",
            ));
        }
        let plan = plan_of(py, &about.campaign, about.small, &about.figures, Some(about.repetitions))?;
        Ok(Campaign::new(plan, folder))
    }
    /// Name of the campaign.
    #[getter]
    fn name(&self) -> &str {
        &self.plan.campaign.name
    }
    /// Folder of the campaign.
    #[getter]
    fn folder(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }
    /// Number of all cells.
    #[getter]
    fn cells(&self) -> usize {
        self.cells.len()
    }
    /// Locks the folder for this process until `unlock`, and discards unfinished cells.
    fn lock(&mut self) -> PyResult<()> {
        let lock = self.folder.lock().map_err(failure)?;
        self.folder.clean().map_err(failure)?;
        self.lock = Some(lock);
        Ok(())
    }
    /// Unlocks the folder.
    fn unlock(&mut self) {
        self.lock = None;
    }
    /// Names of the cells that are still to be run: the first seed of every point comes first.
    fn left(&self) -> PyResult<Vec<String>> {
        let mut names = Vec::new();
        for (name, cell) in &self.cells {
            if self.folder.record(name).map_err(failure)?.is_none() {
                // Sorted by seed first, so that every point has one result before any has two.
                names.push((cell.seed, cell.configuration, name.clone()));
            }
        }
        names.sort();
        Ok(names.into_iter().map(|(_, _, name)| name).collect())
    }
    /// Everything that a machine needs to run the cell with this name.
    fn work(&self, name: &str) -> PyResult<Work> {
        let cell = self.cell(name)?;
        let mut files = BTreeMap::new();
        for file in self.plan.files(cell) {
            let bytes = std::fs::read(self.plan.folder(cell).join(&file))
                .map_err(|why| mistake(format!("{file} cannot be read: {why}")))?;
            files.insert(file, bytes);
        }
        Ok((name.to_string(), self.plan.configurations[cell.configuration].text.clone(), cell.seed, files))
    }
    /// Stores the metrics of a cell, given as JSON, as its result.
    fn put(&self, name: &str, numbers: &str, wall_s: f64, version: &str) -> PyResult<()> {
        let metrics: BTreeMap<String, Option<f64>> =
            serde_json::from_str(numbers).map_err(|why| mistake(format!("no numbers of a cell: {why}")))?;
        // `version` is that of the machine that ran the cell, which may have another build.
        let record = CellRecord::of(&self.plan, self.cell(name)?, metrics, wall_s, version);
        self.folder.put(&record).map_err(failure)
    }
    /// Records the reason why a cell failed.
    fn fail(&self, name: &str, why: &str) -> PyResult<()> {
        self.cell(name)?;
        self.folder.fail(name, why);
        Ok(())
    }
    /// Writes a report of the results so far; returns its text and the path of its page.
    fn report(&self) -> PyResult<(String, PathBuf)> {
        let results = Results::new(&self.plan, self.folder.records(&self.plan).map_err(failure)?);
        let page = results.write(&self.folder).map_err(failure)?;
        Ok((results.text(), page))
    }
}
