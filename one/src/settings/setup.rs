//! Configuration of a run, derived from the values of its settings.

use super::keys::REFUSED;
use super::mistake::Mistake;
use super::sources::{self, Source};
use super::values::{Value, Values};
use crate::map::Town;
use std::path::PathBuf;
use std::sync::Arc;

/// Largest number of groups, interfaces of a group, sources, reports and map files.
const MOST_PARTS: u32 = 1_000;

/// Largest number of steps of a run, and of movement before it.
const MOST_STEPS: f64 = 1e11;

/// Routing algorithm of all hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Router {
    /// Router class `EpidemicRouter` of The ONE.
    Epidemic,
    /// Router class `SprayAndWaitRouter` of The ONE.
    Spray {
        /// Number of copies with which a new message starts.
        copies: u32,
        /// Whether a host hands on half of its copies, instead of one.
        binary: bool,
    },
    /// Router class `ProphetRouter` of The ONE.
    Prophet {
        /// Seconds of one time unit, by which predictabilities age.
        unit: f64,
        /// Weight of transitive encounters.
        beta: f64,
        /// Factor by which a predictability shrinks in a time unit.
        gamma: f64,
    },
    /// Router that is not reproduced, by Farlink's name for it; only with [`Values::translated`].
    Farlink(&'static str),
}

/// Movement model of a group.
#[derive(Clone, Debug)]
pub enum Model {
    /// Movement class `RandomWaypoint` of The ONE.
    Waypoint,
    /// Movement class `RandomWalk` of The ONE.
    Walk,
    /// Movement class `ShortestPathMapBasedMovement` of The ONE.
    Map(Arc<Town>),
    /// Movement class `StationaryMovement` of The ONE.
    Stationary([f64; 2]),
}

/// Kind of interface.
#[derive(Clone, Debug, PartialEq)]
pub struct RadioKind {
    /// Namespace of the interface; only interfaces of one kind connect.
    pub name: String,
    /// Radio range in metres.
    pub range: f64,
    /// Transfer speed, bytes a second.
    pub speed: i32,
}

/// Group of hosts with equal settings.
#[derive(Clone, Debug)]
pub struct Group {
    /// First part of the hosts' names.
    pub id: String,
    /// Number of hosts.
    pub hosts: u32,
    /// Interfaces of each host: indices in [`Setup::radios`].
    pub radios: Vec<usize>,
    /// Movement model of the hosts.
    pub model: Model,
    /// Speed range, metres a second.
    pub speed: [f64; 2],
    /// Range of pauses, seconds.
    pub wait: [f64; 2],
    /// Buffer size in bytes; `i32::MAX` means unlimited.
    pub buffer: i64,
    /// Lifetime of the hosts' messages, minutes; `None` if they do not expire.
    pub lifetime: Option<i32>,
    /// Whether messages leave in the order of arrival, instead of shuffled.
    pub fifo: bool,
    /// Whether a host deletes a message once its destination has it.
    pub delete_delivered: bool,
}

/// Supported report classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportClass {
    /// Report class `MessageStatsReport` of The ONE.
    Statistics,
    /// Report class `EventLogReport` of The ONE.
    EventLog,
    /// Report class `ConnectivityONEReport` of The ONE.
    Connectivity,
}

impl ReportClass {
    /// All classes with their names.
    pub const ALL: [(&'static str, ReportClass); 3] = [
        ("MessageStatsReport", ReportClass::Statistics),
        ("EventLogReport", ReportClass::EventLog),
        ("ConnectivityONEReport", ReportClass::Connectivity),
    ];
}

/// Reports of a run.
#[derive(Clone, Debug)]
pub struct Reporting {
    /// Folder for the report files.
    pub folder: PathBuf,
    /// Report classes with their names.
    pub classes: Vec<(&'static str, ReportClass)>,
    /// Warm-up in seconds, whose messages the statistics leave out.
    pub warmup: f64,
    /// Number of decimals.
    pub precision: usize,
}

/// Configuration of a whole run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Name of the run.
    pub name: String,
    /// Duration in simulated seconds.
    pub end: f64,
    /// Length of a step, seconds.
    pub step: f64,
    /// Whether interfaces detect contacts from their positions; otherwise only event files begin and end contacts.
    pub simulate: bool,
    /// Side of a grid cell, as a multiple of the radio range.
    pub cell_factor: i32,
    /// Whether the order in which hosts are updated is shuffled.
    pub shuffle: bool,
    /// Width and height of the world, metres.
    pub area: [f64; 2],
    /// Seed of all movement.
    pub seed: i64,
    /// Movement before the run, seconds.
    pub warmup: f64,
    /// Router of all hosts.
    pub router: Router,
    /// Kinds of interfaces, in the order in which hosts get them.
    pub radios: Vec<RadioKind>,
    /// Map files, if a group moves on a map.
    pub maps: Vec<PathBuf>,
    /// Groups in the order of the settings.
    pub groups: Vec<Group>,
    /// Sources of external events.
    pub sources: Vec<Source>,
    /// Reports of the run.
    pub reporting: Reporting,
}

impl Setup {
    /// Reads the settings of one run.
    ///
    /// # Errors
    /// Fails on a key that is missing, malformed or not supported.
    pub fn of(values: &Values) -> Result<Setup, Mistake> {
        let whole = |space: &str, key: &str| values.need(&[space], key);
        let name = values.filled(&whole("Scenario", "name")?)?;
        // The name becomes part of file names: a separator would lead out of the folder.
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

pub(super) fn parts(value: &Value) -> Result<u32, Mistake> {
    // A bound on every count of the settings keeps a typing error from filling memory.
    let count = value.count()?;
    if count > MOST_PARTS { Err(value.wrong("too many", format!("write at most {MOST_PARTS}"))) } else { Ok(count) }
}

pub(super) fn refuse(values: &Values, table: &str, spaces: &[&str]) -> Result<(), Mistake> {
    // Ignoring such a key silently would give reports that differ from The ONE's.
    for key in REFUSED.iter().filter(|key| key.space == table) {
        if let Some(value) = values.find(spaces, key.name) {
            let number = |text: &str| text.parse::<f64>().ok();
            // Values are also compared as numbers: `0.0` is as harmless as `0`.
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
            // Farlink's own world writes no reports of The ONE: unknown ones are skipped.
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
    // The effect of a warm-up on the other reports is not reproduced.
    if seconds > 0.0 && classes.iter().any(|(_, class)| *class != ReportClass::Statistics) {
        return Err(not_covered(
            warmup.as_ref(),
            "with another report than MessageStatsReport, leave it out or write 0",
        ));
    }
    Ok(Reporting { folder: folder.into(), classes, warmup: seconds, precision })
}

impl Value {
    fn whole_range_any_order(&self) -> Result<[f64; 2], Mistake> {
        // Whole metres up to 10^9, so that coordinates keep their precision.
        let [width, height] = self.pair()?;
        let fits = |length: f64| length.fract() == 0.0 && (1.0..=1e9).contains(&length);
        if fits(width) && fits(height) {
            return Ok([width, height]);
        }
        Err(self.wrong("not two whole numbers of metres from 1", "write for instance 4500, 3400"))
    }
}
