//! What a run needs, made of the values of its settings.

use super::keys::REFUSED;
use super::mistake::Mistake;
use super::sources::{self, Source};
use super::values::{Value, Values};
use crate::map::Town;
use std::path::PathBuf;
use std::sync::Arc;

/// Most groups, interfaces of a group, sources, reports, map files.
const MOST_PARTS: u32 = 1_000;

/// Most steps of a run, and of movement before it.
const MOST_STEPS: f64 = 1e11;

/// How messages are routed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Router {
    /// `EpidemicRouter`.
    Epidemic,
    /// `SprayAndWaitRouter`.
    Spray {
        /// Of a new message.
        copies: u32,
        /// Half of the copies are handed on, not one.
        binary: bool,
    },
    /// `ProphetRouter`.
    Prophet {
        /// Seconds by which predictabilities age once.
        unit: f64,
        /// Weight of what is known through another host.
        beta: f64,
        /// What a time unit leaves.
        gamma: f64,
    },
    /// One that is not imitated, by Farlink's name for it: only of [`Values::translated`].
    Farlink(&'static str),
}

/// How hosts move.
#[derive(Clone, Debug)]
pub enum Model {
    /// `RandomWaypoint`.
    Waypoint,
    /// `RandomWalk`.
    Walk,
    /// `ShortestPathMapBasedMovement`.
    Map(Arc<Town>),
    /// `StationaryMovement`.
    Stationary([f64; 2]),
}

/// A kind of interface.
#[derive(Clone, Debug, PartialEq)]
pub struct RadioKind {
    /// Its namespace; only interfaces of one kind hear each other.
    pub name: String,
    /// Metres.
    pub range: f64,
    /// Bytes a second.
    pub speed: i32,
}

/// Hosts that are alike.
#[derive(Clone, Debug)]
pub struct Group {
    /// First part of their names.
    pub id: String,
    /// How many.
    pub hosts: u32,
    /// Their interfaces: places in [`Setup::radios`].
    pub radios: Vec<usize>,
    /// How they move.
    pub model: Model,
    /// Metres a second, least and most.
    pub speed: [f64; 2],
    /// Seconds, least and most.
    pub wait: [f64; 2],
    /// Bytes of messages; `i32::MAX`: unlimited.
    pub buffer: i64,
    /// Minutes that their messages live.
    pub lifetime: Option<i32>,
    /// Messages leave in the order they came, not shuffled.
    pub fifo: bool,
    /// A message goes when its destination says that it has it.
    pub delete_delivered: bool,
}

/// Classes of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportClass {
    /// `MessageStatsReport`.
    Statistics,
    /// `EventLogReport`.
    EventLog,
    /// `ConnectivityONEReport`.
    Connectivity,
}

impl ReportClass {
    /// All, with their names.
    pub const ALL: [(&'static str, ReportClass); 3] = [
        ("MessageStatsReport", ReportClass::Statistics),
        ("EventLogReport", ReportClass::EventLog),
        ("ConnectivityONEReport", ReportClass::Connectivity),
    ];
}

/// What is reported.
#[derive(Clone, Debug)]
pub struct Reporting {
    /// Where.
    pub folder: PathBuf,
    /// What, with the name of the class.
    pub classes: Vec<(&'static str, ReportClass)>,
    /// Seconds whose messages statistics leave out.
    pub warmup: f64,
    /// Decimals.
    pub precision: usize,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its name.
    pub name: String,
    /// Simulated seconds.
    pub end: f64,
    /// Seconds a step.
    pub step: f64,
    /// Whether interfaces look for each other.
    pub simulate: bool,
    /// Cells of the grid in ranges.
    pub cell_factor: i32,
    /// Whether hosts are updated in another order each time.
    pub shuffle: bool,
    /// Width and height, metres.
    pub area: [f64; 2],
    /// Of movement.
    pub seed: i64,
    /// Seconds of movement before the run.
    pub warmup: f64,
    /// The router of all hosts.
    pub router: Router,
    /// Kinds of interfaces, in the order in which hosts get them.
    pub radios: Vec<RadioKind>,
    /// Files of the map, where a group walks on one.
    pub maps: Vec<PathBuf>,
    /// The groups.
    pub groups: Vec<Group>,
    /// Sources of events.
    pub sources: Vec<Source>,
    /// What is reported.
    pub reporting: Reporting,
}

impl Setup {
    /// Of the settings of one run.
    ///
    /// # Errors
    /// A key that is missing, cannot be read, or asks for what is not covered.
    pub fn of(values: &Values) -> Result<Setup, Mistake> {
        let whole = |space: &str, key: &str| values.need(&[space], key);
        let name = values.filled(&whole("Scenario", "name")?)?;
        if name.is_empty() || name.contains(['/', '\\', '\0']) {
            let hint = "names of reports begin with it: write letters, digits and the like, without slashes";
            return Err(whole("Scenario", "name")?.wrong("no name of a file", hint));
        }
        let step = whole("Scenario", "updateInterval")?;
        let step = step.number().and_then(|seconds| above_zero(&step, seconds))?;
        let end = whole("Scenario", "endTime")?;
        if end.positive()? / step > MOST_STEPS {
            return Err(end.wrong("more than 10^11 steps", "write a shorter time, or a longer Scenario.updateInterval"));
        }
        refuse(values, "Optimization", &["Optimization"])?;
        let area = whole("MovementModel", "worldSize")?;
        let size = area.whole_range_any_order()?;
        let factor = values.find(&["Optimization"], "cellSizeMult");
        let shuffle = values.find(&["Optimization"], "randomizeUpdateOrder");
        let warmup = values.find(&["MovementModel"], "warmup");
        if let Some(long) =
            warmup.as_ref().filter(|warmup| warmup.number().is_ok_and(|seconds| seconds / step > MOST_STEPS))
        {
            return Err(long.wrong("more than 10^11 steps", "write a shorter time"));
        }
        let mut setup = Setup {
            name,
            end: end.positive()?,
            step,
            simulate: whole("Scenario", "simulateConnections")?.truth()?,
            cell_factor: factor.map_or(Ok(5), |value| at_least_one(&value))?,
            shuffle: shuffle.map_or(Ok(true), |value| value.truth())?,
            area: size,
            seed: values.find(&["MovementModel"], "rngSeed").map_or(Ok(0), |value| value.whole())?.into(),
            warmup: warmup.map_or(Ok(0.0), |value| value.positive())?,
            router: Router::Epidemic,
            radios: Vec::new(),
            maps: Vec::new(),
            groups: Vec::new(),
            sources: Vec::new(),
            reporting: reporting(values)?,
        };
        setup.add_groups(values)?;
        let hosts = setup.groups.iter().map(|group| group.hosts).sum();
        setup.sources = sources::of(values, hosts)?;
        Ok(setup)
    }
}

pub(super) fn not_covered(value: Option<&Value>, hint: &str) -> Mistake {
    match value {
        Some(value) => value.wrong("not covered", hint),
        None => Mistake::new("not covered", hint),
    }
}

pub(super) fn above_zero(value: &Value, number: f64) -> Result<f64, Mistake> {
    if number > 0.0 { Ok(number) } else { Err(value.wrong("not more than 0", "write more than 0")) }
}

pub(super) fn at_least_one(value: &Value) -> Result<i32, Mistake> {
    value.whole().and_then(|number| above_zero(value, number.into()).map(|_| number))
}

/// How many groups, interfaces, sources or reports.
pub(super) fn parts(value: &Value) -> Result<u32, Mistake> {
    let count = value.count()?;
    if count > MOST_PARTS { Err(value.wrong("too many", format!("write at most {MOST_PARTS}"))) } else { Ok(count) }
}

/// Refuses keys of a namespace that ask for what is not covered.
pub(super) fn refuse(values: &Values, table: &str, spaces: &[&str]) -> Result<(), Mistake> {
    for key in REFUSED.iter().filter(|key| key.space == table) {
        if let Some(value) = values.find(spaces, key.name) {
            let number = |text: &str| text.parse::<f64>().ok();
            let equal = number(key.harmless).is_some() && number(&value.text) == number(key.harmless);
            if value.text != key.harmless && !equal {
                let hint = format!("leave {} out; docs/reference/one.md says what is covered", value.key);
                return Err(value.wrong(format!("{} are not covered", key.what), hint));
            }
        }
    }
    Ok(())
}

fn reporting(values: &Values) -> Result<Reporting, Mistake> {
    refuse(values, "Report", &["Report"])?;
    let mut classes = Vec::new();
    for number in 1..=parts(&values.need(&["Report"], "nrofReports")?)? {
        let class = values.need(&["Report"], &format!("report{number}"))?;
        let Some(known) = ReportClass::ALL.into_iter().find(|(name, _)| *name == class.text) else {
            if values.translated {
                continue;
            }
            return Err(not_covered(
                Some(&class),
                "exact are MessageStatsReport, EventLogReport and ConnectivityONEReport",
            ));
        };
        if classes.contains(&known) {
            return Err(class.wrong("a second time", "name each report once"));
        }
        classes.push(known);
    }
    let spaces = ["MessageStatsReport", "Report"];
    let folder = values.find(&["Report"], "reportDir");
    let folder = folder.map_or(Ok("reports/".into()), |value| values.filled(&value))?;
    let precision = values.find(&spaces, "precision");
    let precision = precision.map_or(Ok(4), |value| {
        let places = value.count()?;
        if places > 20 { Err(value.wrong("more than 20 decimals", "write fewer")) } else { Ok(places as usize) }
    })?;
    let warmup = values.find(&spaces, "warmup");
    let seconds = warmup.as_ref().map_or(Ok(0.0), Value::positive)?;
    if seconds > 0.0 && classes.iter().any(|(_, class)| *class != ReportClass::Statistics) {
        return Err(not_covered(
            warmup.as_ref(),
            "with another report than MessageStatsReport, leave it out or write 0",
        ));
    }
    Ok(Reporting { folder: folder.into(), classes, warmup: seconds, precision })
}

impl Value {
    /// Width and height of the world.
    fn whole_range_any_order(&self) -> Result<[f64; 2], Mistake> {
        let [width, height] = self.pair()?;
        let fits = |length: f64| length.fract() == 0.0 && (1.0..=1e9).contains(&length);
        if fits(width) && fits(height) {
            return Ok([width, height]);
        }
        Err(self.wrong("not two whole numbers of metres from 1", "write for instance 4500, 3400"))
    }
}
