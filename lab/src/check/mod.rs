//! `farlink lab check`: tries two implementations against each other in the testbed, over every layer that both have.

mod matrix;
mod trials;

pub use matrix::{MatrixCell, table};

use crate::drivers::declared::{Declared, DriverFolder};
use crate::run::{LabOptions, run};
use anyhow::{Context, Result, bail};
use farlink_base::DataVolume;
use farlink_report::{RunReader, Statistics};
use farlink_scenario::{LAYERS, Scenario};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use trials::{CheckSide, CheckTrial, trials};

/// Name of our own implementation.
const FARLINK: &str = "farlink";

/// One in this many bundles may be lost over a layer without confirmation.
const DATAGRAMS_LOST: usize = 20;

/// Options of a check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Implementations, each `NAME` or `NAME@FOLDER`; the first sends in trials named "there".
    pub pair: [String; 2],
    /// Layers to try; all that both have if empty.
    pub layers: Vec<String>,
    /// Folder for the runs.
    pub folder: PathBuf,
    /// Path of the `farlink` program.
    pub program: PathBuf,
    /// Set from outside to stop.
    pub stop: Arc<AtomicBool>,
}

/// Result of one line of a check.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckLine {
    /// Layer, if the line concerns one.
    pub layer: Option<String>,
    /// Subject in a few words.
    pub subject: String,
    /// Measurements in words, or the failure.
    pub outcome: Result<String, String>,
    /// Time that it took, s.
    pub seconds: f64,
}

/// Implementation of one side, known by its driver.
struct CheckedDriver {
    text: String,
    driver: Option<(DriverFolder, Declared)>,
}

impl CheckedDriver {
    fn find(text: &str, folder: &Path) -> Result<CheckedDriver> {
        let (name, programs) = match text.split_once('@') {
            Some((name, programs)) => (name, Some(Path::new(programs))),
            None => (text, None),
        };
        let driver = match name {
            FARLINK => None,
            _ => {
                let found = DriverFolder::find(name, folder)?;
                Some((found.clone(), Declared::new(found, programs)?))
            }
        };
        Ok(CheckedDriver { text: text.into(), driver })
    }

    fn has(&self, layer: &str) -> bool {
        self.driver.as_ref().is_none_or(|(folder, _)| folder.has_layer(layer))
    }

    fn may_lose(&self, layer: &str) -> bool {
        self.driver.as_ref().is_some_and(|(folder, _)| folder.may_lose(layer))
    }

    fn side(&self, number: u32, layer: &str) -> CheckSide {
        let Some((folder, _)) = &self.driver else {
            let id = format!("ipn:{number}.0");
            return CheckSide { implementation: self.text.clone(), id, takes: None, echo: true, restarts: true };
        };
        let id = if folder.has_ipn() { format!("ipn:{number}.0") } else { format!("dtn://node{number}/") };
        CheckSide {
            implementation: self.text.clone(),
            id,
            takes: folder.takes(layer).and_then(|text| text.parse::<DataVolume>().ok()),
            echo: folder.answers_pings(),
            restarts: folder.restarts(),
        }
    }
}

/// Checks a pair; calls `each` with every line as it is known. Returns the lines.
///
/// # Errors
/// When a driver cannot be used at all.
pub fn check(options: &CheckOptions, each: &mut dyn FnMut(&CheckLine)) -> Result<Vec<CheckLine>> {
    let mut lines = Vec::new();
    let mut add = |line: CheckLine| {
        each(&line);
        lines.push(line);
    };
    let here = std::env::current_dir().context("the current folder")?;
    let mut sides = Vec::new();
    for text in &options.pair {
        let begun = Instant::now();
        let found = CheckedDriver::find(text, &here)?;
        if let Some((folder, driver)) = &found.driver {
            use crate::driver::Driver as _;
            let outcome = match (folder.prints_version(), driver.version()) {
                (_, Some(version)) => Ok(format!("version {version}, {}", folder.place)),
                (false, None) => Ok(folder.place.clone()),
                (true, None) => Err("its programs print no version that the driver's `match` finds".into()),
            };
            let seconds = begun.elapsed().as_secs_f64();
            add(CheckLine { layer: None, subject: format!("{text}: driver, programs"), outcome, seconds });
        }
        sides.push(found);
    }
    let common = LAYERS.iter().map(|layer| layer.name).filter(|name| sides.iter().all(|side| side.has(name)));
    let wanted = |name: &&str| options.layers.is_empty() || options.layers.iter().any(|layer| layer == name);
    let layers: Vec<&str> = common.filter(wanted).collect();
    if layers.is_empty() {
        bail!(
            "{} and {} have no layer in common\nhint: `--layer` may name one that either lacks",
            sides[0].text,
            sides[1].text
        );
    }
    for layer in layers {
        let pair = [sides[0].side(1, layer), sides[1].side(2, layer)];
        for trial in trials(&pair, layer) {
            if options.stop.load(Ordering::Relaxed) {
                return Ok(lines);
            }
            let begun = Instant::now();
            let may_lose = sides.iter().any(|side| side.may_lose(layer));
            let outcome = run_trial(options, layer, &trial, may_lose).map_err(|why| format!("{why:#}"));
            let seconds = begun.elapsed().as_secs_f64();
            add(CheckLine { layer: Some(layer.into()), subject: trial.name.into(), outcome, seconds });
        }
    }
    Ok(lines)
}

fn run_trial(options: &CheckOptions, layer: &str, trial: &CheckTrial, may_lose: bool) -> Result<String> {
    let folder = options.folder.join(layer).join(trial.name.replace(' ', "-"));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    std::fs::write(folder.join("scenario.toml"), &trial.scenario)?;
    let mut scenario = Scenario::parse(&trial.scenario).map_err(|mistakes| {
        let list: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", list.join("\n"))
    })?;
    // Drivers may stand beside the place where the check was started.
    scenario.folder = std::env::current_dir()?;
    let lab = LabOptions {
        folder: folder.join("run"),
        command: format!("farlink run {} --in lab", folder.join("scenario.toml").display()),
        program: options.program.clone(),
        stop: options.stop.clone(),
    };
    let done = run(&scenario, &lab, &mut |_| {})?;
    judge(&RunReader::open(&done)?, may_lose)
}

/// Result of a run in words. With `may_lose` one in [`DATAGRAMS_LOST`] bundles may be lost, and files be incomplete.
///
/// # Errors
/// What is missing or differs.
fn judge(run: &RunReader, may_lose: bool) -> Result<String> {
    let manifest = run.manifest();
    for file in manifest.files.iter().filter(|_| !may_lose) {
        if file.equal() != Some(true) {
            bail!("the file of {} arrived with {} of {} bytes", file.traffic, file.received_bytes, file.sent_bytes);
        }
    }
    let mut times = Vec::new();
    run.samples(&mut |sample| {
        if &*sample.metric == farlink_report::schema::ROUND_TRIP_S {
            times.push(sample.value);
        }
        Ok(())
    })?;
    if !times.is_empty() {
        times.sort_by(f64::total_cmp);
        return Ok(format!("{} pings answered, median {:.1} ms", times.len(), times[times.len() / 2] * 1e3));
    }
    let bundles = run.bundles()?;
    let delivered = bundles.iter().filter(|bundle| bundle.delivered_ns.is_some()).count();
    let least = if may_lose { bundles.len() - bundles.len().div_ceil(DATAGRAMS_LOST) } else { bundles.len() };
    if delivered < least || bundles.is_empty() {
        bail!("{delivered} of {} bundles arrived", bundles.len());
    }
    let statistics = Statistics::of(&bundles, &[]);
    let goodput = statistics.goodput_bit_s.map(|rate| format!(", {:.2} Mbit/s", rate / 1e6)).unwrap_or_default();
    Ok(format!("{delivered} of {} bundles arrived{goodput}", bundles.len()))
}
