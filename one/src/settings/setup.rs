//! Configuration of a run, derived from the values of its settings.

use super::keys::{REFUSED, left_out};
use super::mistake::Mistake;
use super::reporting;
use super::sources::{self, Source};
use super::values::{Value, Values};
use crate::map::{Allowed, Town};
use crate::reports::MessageKind;
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
    /// Router class `DirectDeliveryRouter` of The ONE.
    Direct,
    /// Router class `FirstContactRouter` of The ONE.
    FirstContact,
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
    /// Movement class `StationaryMovement` of The ONE.
    Stationary([f64; 2]),
    /// Movement class `ClusterMovement` of The ONE: random waypoints in a circle.
    Cluster {
        /// Centre of the circle, metres.
        centre: [f64; 2],
        /// Radius of the circle, metres.
        range: f64,
    },
    /// Movement class `ShortestPathMapBasedMovement` of The ONE.
    Map {
        /// Streets of the group.
        streets: Streets,
        /// Groups of points of interest, each with its probability.
        pois: Arc<Vec<(f64, Vec<u32>)>>,
    },
    /// Movement class `MapBasedMovement` of The ONE.
    Wander(Streets),
    /// Movement class `MapRouteMovement` of The ONE.
    Route {
        /// Streets of the group.
        streets: Streets,
        /// Stops of each route, of which the hosts take one after the other.
        routes: Arc<Vec<Vec<u32>>>,
        /// Whether the first stop follows the last one; otherwise hosts turn around.
        circular: bool,
        /// Index of the first stop; random if `None`.
        first: Option<i32>,
    },
}

/// Map of a group, with the part that its hosts use.
#[derive(Clone, Debug)]
pub struct Streets {
    /// The whole map.
    pub town: Arc<Town>,
    /// Places that hosts of the group use.
    pub allowed: Allowed,
}

/// Times at which the hosts of a group move.
#[derive(Clone, Debug, PartialEq)]
pub enum Active {
    /// From begin to end.
    Always,
    /// Times of `activeTimes`, seconds.
    Times(Vec<[f64; 2]>),
    /// Repeating times of `activePeriods`, seconds.
    Periods {
        /// Length of activity.
        on: i32,
        /// Length of the pause.
        off: i32,
        /// Time of the first period that is over when the run begins.
        offset: i32,
    },
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
    /// Times at which the hosts move.
    pub active: Active,
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
    /// Report classes `ContactTimesReport` and `InterContactTimesReport` of The ONE.
    Contacts {
        /// Whether times between contacts are counted.
        between: bool,
    },
    /// Report classes of messages.
    Messages(MessageKind),
}

/// Reports of a run.
#[derive(Clone, Debug)]
pub struct Reporting {
    /// Folder for the report files.
    pub folder: PathBuf,
    /// Reports that are written.
    pub reports: Vec<ReportSetup>,
    /// Settings of the figures, which are always computed.
    pub figures: ReportSetup,
    /// Named reports that are not written.
    pub left_out: Vec<String>,
}

/// Settings of a report.
#[derive(Clone, Debug)]
pub struct ReportSetup {
    /// Name of the class.
    pub name: &'static str,
    /// Kind of report.
    pub class: ReportClass,
    /// Seconds of the warm-up, which is left out.
    pub warmup: f64,
    /// Number of decimals.
    pub precision: usize,
    /// Seconds that a row covers, in reports of contact times.
    pub granularity: f64,
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
    /// Lines about settings that Farlink's own world leaves out; only with [`Values::translated`].
    pub left_out: Vec<String>,
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
            reporting: reporting::of(values)?,
            left_out: if values.translated { left_out(values) } else { Vec::new() },
        };
        setup.add_groups(values)?;
        let hosts = setup.groups.iter().map(|group| group.hosts).sum();
        setup.sources = sources::of(values, hosts)?;
        Ok(setup)
    }

    /// Whether the path of each copy is needed.
    pub(crate) fn keeps_paths(&self) -> bool {
        let delivered = ReportClass::Messages(MessageKind::Delivered);
        self.router == Router::FirstContact || self.reporting.reports.iter().any(|report| report.class == delivered)
    }
}

pub(super) fn not_covered(value: &Value, hint: &str) -> Mistake {
    value.wrong("not covered", hint).of_uncovered()
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
    // Farlink's own world leaves them out, and says so.
    if values.translated {
        return Ok(());
    }
    // Ignoring such a key silently would give reports that differ from The ONE's.
    for key in REFUSED.iter().filter(|key| key.space == table) {
        if let Some(value) = values.find(spaces, key.name).filter(|value| key.concerns(&value.text)) {
            let hint =
                format!("leave {} out, as --mode fast does; docs/reference/one.md says what is covered", value.key);
            return Err(value.wrong(format!("{} are not covered", key.what), hint).of_uncovered());
        }
    }
    Ok(())
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
