//! `farlink lab check`: tries two implementations against each other in the testbed, over every layer that both have.

mod matrix;
mod trials;

pub use matrix::{MatrixCell, merged, table, update};

use crate::drivers::declared::{Declared, DriverFolder, LayerLimits};
use crate::run::{LabOptions, run};
use anyhow::{Context, Result, bail};
use farlink_report::{RunReader, Statistics};
use farlink_scenario::{LAYERS, Scenario, TrafficKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use trials::{CheckSide, CheckTrial, trials};

pub use trials::CheckSize;

/// Name of our own implementation.
pub const FARLINK: &str = "farlink";

/// One in this many bundles or pings, rounded up, may be lost over a layer without acknowledgments.
const DATAGRAMS_LOST: usize = 20;

/// Options of a check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Implementations, each `NAME` or `NAME@FOLDER`; the first sends in trials named "there".
    pub pair: [String; 2],
    /// Layers to try; all that both have if empty.
    pub layers: Vec<String>,
    /// Version of the Bundle Protocol to try, 7 or 6; each that both make if `None`.
    pub bundle_version: Option<u8>,
    /// Number of bundles in the trials.
    pub size: CheckSize,
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
    /// Layer and version of the Bundle Protocol, if the line concerns one.
    pub layer: Option<(String, u8)>,
    /// Subject in a few words.
    pub subject: String,
    /// Measurements in words, or the failure.
    pub outcome: Result<String, String>,
    /// Time that it took, s.
    pub seconds: f64,
}

/// Results of a check.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckedPair {
    /// Names of the two implementations, with the versions that they print.
    pub names: [String; 2],
    /// Lines of the check, in the order in which they were reported.
    pub lines: Vec<CheckLine>,
}

/// Implementation on one side of a check; `driver` is `None` for Farlink's own.
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

    /// Whether its nodes may have IDs of the scheme.
    fn has_scheme(&self, scheme: &str) -> bool {
        self.driver.as_ref().is_none_or(|(folder, _)| if scheme == "ipn" { folder.has_ipn() } else { folder.has_dtn() })
    }

    fn has_version(&self, version: u8) -> bool {
        self.driver.as_ref().is_none_or(|(folder, _)| folder.has_version(version))
    }

    fn side(&self, number: u32, layer: &str, scheme: &str) -> CheckSide {
        // An implementation without IDs of this scheme uses IDs of the other.
        let ipn = self.has_scheme("ipn") && (scheme == "ipn" || !self.has_scheme("dtn"));
        let id = if ipn { format!("ipn:{number}.0") } else { format!("dtn://node{number}/") };
        let Some((folder, _)) = &self.driver else {
            let (implementation, limits) = (self.text.clone(), LayerLimits::default());
            return CheckSide { implementation, id, limits, echo: true, restarts: true, reads_crc: true };
        };
        CheckSide {
            implementation: self.text.clone(),
            id,
            limits: folder.limits(layer),
            echo: folder.echo().is_some(),
            restarts: folder.restarts(),
            reads_crc: folder.reads_crc(),
        }
    }
}

/// Checks a pair; calls `each` with every line as it is known.
///
/// # Errors
/// When a driver cannot be used at all, or the check was stopped.
pub fn check(options: &CheckOptions, each: &mut dyn FnMut(&CheckLine)) -> Result<CheckedPair> {
    let mut lines = Vec::new();
    let mut add = |line: CheckLine| {
        each(&line);
        lines.push(line);
    };
    let here = std::env::current_dir().context("the current folder")?;
    let cannot = || format!("cannot create {}", options.folder.display());
    std::fs::create_dir_all(&options.folder).with_context(cannot)?;
    let mut sides = Vec::new();
    let mut names = options.pair.clone().map(|text| text.split('@').next().unwrap_or_default().to_string());
    for (text, name) in options.pair.iter().zip(&mut names) {
        let begun = Instant::now();
        let found = CheckedDriver::find(text, &here)?;
        if let Some((folder, driver)) = &found.driver {
            use crate::driver::Driver as _;
            let version = driver.version(&options.folder);
            if let Some(version) = &version {
                *name += &format!(" {version}");
            }
            let outcome = match (folder.prints_version(), version) {
                (_, Some(version)) => Ok(format!("version {version}, {}", folder.place)),
                (false, None) => Ok(folder.place.clone()),
                (true, None) => Err("its programs print no version that the driver's `match` finds".into()),
            };
            let seconds = begun.elapsed().as_secs_f64();
            add(CheckLine { layer: None, subject: format!("{text}: driver, programs"), outcome, seconds });
        }
        sides.push(found);
    }
    let scheme = if sides.iter().all(|side| side.has_scheme("ipn")) { "ipn" } else { "dtn" };
    let versions = versions(&sides, options.bundle_version)?;
    for layer in layers(&sides, &options.layers)? {
        let pair = [sides[0].side(1, layer, scheme), sides[1].side(2, layer, scheme)];
        let may_lose = sides.iter().any(|side| side.may_lose(layer));
        for &version in &versions {
            for trial in trials(&pair, layer, version, options.size, may_lose) {
                let begun = Instant::now();
                let named = if version == 7 { layer.to_string() } else { format!("{layer}-bpv{version}") };
                let folder = options.folder.join(named).join(trial.name.replace(' ', "-"));
                let outcome = run_trial(options, &folder, &trial, may_lose).map_err(|why| format!("{why:#}"));
                // An interrupted trial proves nothing, and a table that lacks trials would look complete.
                if options.stop.load(Ordering::Relaxed) {
                    bail!("stopped in the trial `{}` over {layer}", trial.name);
                }
                let seconds = begun.elapsed().as_secs_f64();
                add(CheckLine { layer: Some((layer.into(), version)), subject: trial.name.into(), outcome, seconds });
            }
        }
    }
    Ok(CheckedPair { names, lines })
}

/// Versions of the Bundle Protocol to try: the one that is wanted, or each that both sides make.
///
/// # Errors
/// If the sides make no version in common, or one does not make the one that is wanted.
fn versions(sides: &[CheckedDriver], wanted: Option<u8>) -> Result<Vec<u8>> {
    let tried = wanted.map_or(vec![7, 6], |version| vec![version]);
    let common: Vec<u8> = tried.into_iter().filter(|&it| sides.iter().all(|side| side.has_version(it))).collect();
    if common.is_empty() {
        let pair: Vec<&str> = sides.iter().map(|side| side.text.as_str()).collect();
        let version = wanted.map_or("the same version".into(), |version| format!("version {version}"));
        bail!(
            "{} do not both make bundles of {version}\nhint: `farlink lab drivers` lists versions",
            pair.join(" and ")
        );
    }
    Ok(common)
}

/// Layers to try: those of `wanted`, or all that both sides have.
///
/// # Errors
/// If the sides have no layer in common, or one lacks a layer that is wanted.
fn layers(sides: &[CheckedDriver], wanted: &[String]) -> Result<Vec<&'static str>> {
    let common = LAYERS.iter().map(|layer| layer.name).filter(|name| sides.iter().all(|side| side.has(name)));
    let common: Vec<&str> = common.collect();
    let pair: Vec<&str> = sides.iter().map(|side| side.text.as_str()).collect();
    let pair = pair.join(" and ");
    if common.is_empty() {
        bail!("{pair} have no layer in common");
    }
    if let Some(lacking) = wanted.iter().find(|name| !common.contains(&name.as_str())) {
        bail!("{pair} do not both have the layer {lacking}\nhint: both have {}", common.join(", "));
    }
    Ok(common.into_iter().filter(|name| wanted.is_empty() || wanted.iter().any(|layer| layer == name)).collect())
}

fn run_trial(options: &CheckOptions, folder: &Path, trial: &CheckTrial, may_lose: bool) -> Result<String> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    std::fs::write(folder.join("scenario.toml"), &trial.scenario)?;
    let mut scenario = Scenario::parse(&trial.scenario).map_err(|mistakes| {
        let list: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", list.join("\n"))
    })?;
    // Drivers are also searched in `drivers` of the folder in which the check was started.
    scenario.folder = std::env::current_dir()?;
    let lab = LabOptions {
        folder: folder.join("run"),
        command: format!("farlink run {} --in lab", folder.join("scenario.toml").display()),
        program: options.program.clone(),
        stop: options.stop.clone(),
    };
    let done = run(&scenario, &lab, &mut |_| {})?;
    judge(&RunReader::open(&done)?, &scenario, may_lose)
}

/// Number of pings, and number of bundles, that a scenario's traffic creates; pieces of files are not counted.
fn expected(scenario: &Scenario) -> (usize, usize) {
    scenario.traffic.iter().fold((0, 0), |(pings, bundles), traffic| match traffic.kind {
        TrafficKind::Ping { count, .. } => (pings + count as usize, bundles),
        TrafficKind::Bundles { count, .. } => (pings, bundles + count as usize),
        TrafficKind::File { .. } => (pings, bundles),
    })
}

/// Result of a run in words. With `may_lose`, one in [`DATAGRAMS_LOST`] pings or bundles may be lost, but never all, and
/// files are not compared.
///
/// # Errors
/// A sentence about missing bundles or pings, or about a file that differs.
fn judge(run: &RunReader, scenario: &Scenario, may_lose: bool) -> Result<String> {
    let (pings, sent) = expected(scenario);
    let least = |all: usize| if may_lose { (all - all.div_ceil(DATAGRAMS_LOST)).max(all.min(1)) } else { all };
    let manifest = run.manifest();
    for file in manifest.files.iter().filter(|_| !may_lose) {
        if file.equal() == Some(false) && file.received_bytes == file.sent_bytes {
            bail!("the file of {} arrived with a part missing or changed", file.traffic);
        }
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
    if times.len() < least(pings) {
        bail!("{} of {pings} pings answered", times.len());
    }
    if !times.is_empty() {
        times.sort_by(f64::total_cmp);
        return Ok(format!("{} pings answered, median {:.1} ms", times.len(), times[times.len() / 2] * 1e3));
    }
    let bundles = run.bundles()?;
    let delivered = bundles.iter().filter(|bundle| bundle.delivered_ns.is_some()).count();
    // A sender that ended early created fewer bundles than planned.
    let all = bundles.len().max(sent);
    if delivered < least(all) || all == 0 {
        bail!("{delivered} of {all} bundles arrived");
    }
    let statistics = Statistics::of(&bundles, &[]);
    let goodput = statistics.goodput_bit_s.map(|rate| format!(", {:.2} Mbit/s", rate / 1e6)).unwrap_or_default();
    Ok(format!("{delivered} of {all} bundles arrived{goodput}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_report::{EventRow, Manifest, RunWorld, RunWriter, SampleRow};

    const NODES: &str = "name = \"s\"\nduration = \"9 s\"\n\
        [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n\
        [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"udpcl\"\n";

    /// Judges a run in which `answered` pings were answered, `made` bundles created, and `delivered` bundles delivered.
    fn judged(traffic: &str, answered: usize, [made, delivered]: [u64; 2], may_lose: bool) -> Result<String, String> {
        let text = format!("{NODES}[[traffic]]\nfrom = \"a\"\nto = \"b\"\n{traffic}\n");
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(dir.path(), Manifest::new(RunWorld::Lab, "s", &text, None)).unwrap();
        for _ in 0..answered {
            let metric = farlink_report::schema::ROUND_TRIP_S.into();
            let sample = SampleRow { time_ns: 1, node: Some("a".into()), link: None, metric, value: 0.5, phase: None };
            writer.sample(&sample).unwrap();
        }
        for (event, count) in [("created", made), ("delivered", delivered)] {
            for number in 0..count {
                let node = if event == "created" { "a" } else { "b" };
                let mut row = EventRow::new(5, node.into(), event);
                (row.source, row.service) = (Some("a".into()), Some(9));
                (row.creation_ms, row.sequence, row.size) = (Some(0), Some(number), Some(100));
                (row.destination, row.destination_service) = (Some("b".into()), Some(8));
                writer.event(&row).unwrap();
            }
        }
        let run = RunReader::open(&writer.finish().unwrap()).unwrap();
        judge(&run, &Scenario::parse(&text).unwrap(), may_lose).map_err(|why| why.to_string())
    }

    #[test]
    fn all_pings_must_be_answered() {
        let pings = "ping = { count = 20 }";
        assert_eq!(judged(pings, 20, [0, 0], false).unwrap(), "20 pings answered, median 500.0 ms");
        assert_eq!(judged(pings, 19, [0, 0], false).unwrap_err(), "19 of 20 pings answered");
        assert!(judged(pings, 19, [0, 0], true).is_ok());
        assert_eq!(judged(pings, 18, [0, 0], true).unwrap_err(), "18 of 20 pings answered");
        assert_eq!(judged("ping = { count = 1 }", 0, [0, 0], true).unwrap_err(), "0 of 1 pings answered");
    }

    #[test]
    fn all_bundles_must_be_made_and_arrive() {
        let bundles = "bundles = { count = 20, size = \"100 B\" }";
        assert!(judged(bundles, 0, [20, 20], false).unwrap().starts_with("20 of 20 bundles arrived"));
        for (numbers, may_lose, said) in [([20, 19], false, "19"), ([5, 5], false, "5"), ([20, 18], true, "18")] {
            let why = judged(bundles, 0, numbers, may_lose).unwrap_err();
            assert_eq!(why, format!("{said} of 20 bundles arrived"));
        }
        let one = "bundles = { count = 1, size = \"100 B\" }";
        assert_eq!(judged(one, 0, [1, 0], true).unwrap_err(), "0 of 1 bundles arrived");
    }

    #[test]
    fn wanted_layers_are_those_of_both() {
        let sides = ["farlink", "toy"].map(|text| {
            let driver = (text != FARLINK).then(|| DriverFolder::find(text, Path::new("/nowhere")).unwrap());
            let driver = driver.map(|folder| (folder.clone(), Declared::without_programs(folder)));
            CheckedDriver { text: text.into(), driver }
        });
        assert_eq!(layers(&sides, &[]).unwrap(), ["tcpclv4"]);
        assert_eq!(layers(&sides, &["tcpclv4".into()]).unwrap(), ["tcpclv4"]);
        let why = layers(&sides, &["tcpclv4".into(), "ltp".into()]).unwrap_err().to_string();
        assert!(why.contains("do not both have the layer ltp\nhint: both have tcpclv4"), "{why}");
        // The toy has version 7 only.
        assert_eq!((versions(&sides, None).unwrap(), versions(&sides, Some(7)).unwrap()), (vec![7], vec![7]));
        let why = versions(&sides, Some(6)).unwrap_err().to_string();
        assert!(why.contains("farlink and toy do not both make bundles of version 6\nhint: "), "{why}");
        assert_eq!(versions(&sides[..1], None).unwrap(), [7, 6]);
    }
}
