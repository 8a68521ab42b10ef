//! A campaign, as read from its file.

use crate::keypath::KeyPath;
use crate::metrics::Metric;
use farlink_report::plot::PlotShape;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// World in which cells run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellWorld {
    /// The simulator.
    Sim,
    /// The testbed on this machine.
    Lab,
}
impl CellWorld {
    /// Name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            CellWorld::Sim => "sim",
            CellWorld::Lab => "lab",
        }
    }
}

/// An assignment: a scenario key and its value.
pub type Set = (KeyPath, toml::Value);

/// A campaign with its axes, figures and claims.
#[derive(Clone, PartialEq, Debug)]
pub struct Campaign {
    /// Name of the campaign.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Path of the campaign file.
    pub file: PathBuf,
    /// Folder of the file, to which paths in it are relative.
    pub folder: PathBuf,
    /// World in which its cells run.
    pub world: CellWorld,
    /// Number of runs of each point, each with its own seed.
    pub repetitions: u64,
    /// Seed of the first repetition; the following ones count up.
    pub first_seed: u64,
    /// Assignments of the small size, made before those of the axes, in scenarios that have the tables.
    pub set: Vec<Set>,
    /// Varied parameters, in the order of the file.
    pub axes: Vec<Axis>,
    /// Points left out: those at which each axis listed has one of the values listed.
    pub skips: Vec<Vec<(usize, Vec<usize>)>>,
    /// Figures to draw, in the order of the file.
    pub figures: Vec<Figure>,
    /// Definition of the small size, if the file has one.
    pub smoke: Option<Smoke>,
    /// Whether the campaign was reduced to its small size.
    pub small: bool,
    /// Whether only some of its figures are left.
    pub part: bool,
    /// Names of figures that the small size leaves out.
    pub left_out: Vec<String>,
    /// Command-line options that reproduce the choice of size, figures, world and repetitions.
    pub asked: String,
    /// Text of the campaign file.
    pub text: String,
}

/// One varied parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// Name in the file and in tables.
    pub name: String,
    /// Title in figures.
    pub title: String,
    /// Values, in the order of the file.
    pub values: Vec<AxisValue>,
}

/// One value of an axis.
#[derive(Clone, PartialEq, Debug)]
pub struct AxisValue {
    /// Label in figures and tables.
    pub label: String,
    /// Assignments to the scenario.
    pub sets: Vec<Set>,
    /// Byte offset of the value in the campaign file, for errors.
    pub place: usize,
    /// Whether the current size keeps this value.
    pub kept: bool,
}

impl Axis {
    /// Index of the value with this label.
    pub fn value(&self, label: &str) -> Option<usize> {
        self.values.iter().position(|value| value.label == label)
    }
    /// Indices of the values that the current size keeps.
    pub fn kept(&self) -> impl Iterator<Item = usize> + '_ {
        self.values.iter().enumerate().filter(|(_, value)| value.kept).map(|(place, _)| place)
    }
}

/// A figure. Axes and values are given by index.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name in files and tables.
    pub name: String,
    /// Title above the figure.
    pub title: String,
    /// Metric of the vertical axis.
    pub metric: &'static Metric,
    /// Path of the scenario file, relative to the campaign's folder.
    pub scenario: PathBuf,
    /// Index of the horizontal axis.
    pub x: usize,
    /// Index of the axis whose values are series; `None` for a single series.
    pub series: Option<usize>,
    /// Index of the axis whose values are separate plots; `None` for a single plot.
    pub facet: Option<usize>,
    /// Values fixed for other axes, as pairs of axis and value indices.
    pub fixed: Vec<(usize, usize)>,
    /// Drawing style of the series.
    pub shape: PlotShape,
    /// Index of the reference series that others are compared with.
    pub against: usize,
    /// Claims about the figure.
    pub claims: Vec<Claim>,
    /// Values that papers give for the figure.
    pub paper: Vec<Paper>,
    /// Byte offset of the figure in the campaign file, for errors.
    pub place: usize,
}

/// Condition under which a claim holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ClaimRule {
    /// Each series is above each reference.
    Above,
    /// Each series is below each reference.
    Below,
    /// Series and references differ by less than this fraction of the reference's mean.
    Similar(f64),
    /// The metric is larger at the last position of the horizontal axis than at the first.
    Rises,
    /// The metric is smaller at the last position than at the first.
    Falls,
    /// The mean lies between these values, ends included.
    Between(f64, f64),
}

/// Positions on the horizontal axis that a claim is about.
#[derive(Clone, PartialEq, Debug)]
pub enum ClaimPositions {
    /// The mean over all positions.
    Mean,
    /// Each of these positions separately.
    Each(Vec<usize>),
}

/// A claim about a figure, with the rule that judges it.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// The claim in the words of its author.
    pub text: String,
    /// Condition under which the claim holds.
    pub rule: ClaimRule,
    /// Indices of the series that the claim is about; only 0 if the figure has no series.
    pub series: Vec<usize>,
    /// Indices of the reference series, with which the series are compared.
    pub than: Vec<usize>,
    /// Indices of the facets that the claim is about; only 0 if the figure has no facets.
    pub facets: Vec<usize>,
    /// Positions on the horizontal axis.
    pub at: ClaimPositions,
}

/// Values that a paper gives, by position on the horizontal axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Paper {
    /// Index of the series.
    pub series: usize,
    /// Index of the facet; `None` for all.
    pub facet: Option<usize>,
    /// Values, one for each position from the left.
    pub values: Vec<f64>,
}

/// Definition of the small size, for tests and first looks.
#[derive(Clone, PartialEq, Debug)]
pub struct Smoke {
    /// Number of runs of each point.
    pub repetitions: u64,
    /// Assignments made before those of the axes, in scenarios that have the tables.
    pub set: Vec<Set>,
    /// Values kept, by axis; axes not listed keep all.
    pub values: Vec<(usize, Vec<usize>)>,
    /// Names of the figures kept; empty for all.
    pub figures: Vec<String>,
}

impl Campaign {
    /// Reduces the campaign to its small size; without `[smoke]`, to at most two repetitions.
    pub fn smaller(mut self) -> Campaign {
        self.small = true;
        self.asked += " --smoke";
        let Some(smoke) = self.smoke.clone() else {
            // Two seeds are the fewest that give an interval.
            self.repetitions = self.repetitions.min(2);
            return self;
        };
        self.repetitions = smoke.repetitions;
        self.set = smoke.set;
        for (axis, kept) in &smoke.values {
            for (place, value) in self.axes[*axis].values.iter_mut().enumerate() {
                value.kept = kept.contains(&place);
            }
        }
        if !smoke.figures.is_empty() {
            self.part = true;
            // Remembered, so that `only` can explain why a figure is missing.
            self.left_out = self.figures.iter().map(|figure| figure.name.clone()).collect();
            self.left_out.retain(|name| !smoke.figures.contains(name));
            self.figures.retain(|figure| smoke.figures.contains(&figure.name));
        }
        self
    }
    /// Keeps only the figures of these names, and all if no name is given.
    ///
    /// # Errors
    /// A message with the unknown name and the known ones.
    pub fn only(mut self, names: &[String]) -> Result<Campaign, String> {
        for name in names {
            if !self.figures.iter().any(|figure| figure.name == *name) {
                let known: Vec<&str> = self.figures.iter().map(|figure| figure.name.as_str()).collect();
                let known = known.join(", ");
                return Err(match self.left_out.contains(name) {
                    true => format!("the small size leaves figure `{name}` out\nhint: its figures are {known}"),
                    false => format!("there is no figure `{name}`\nhint: its figures are {known}"),
                });
            }
        }
        if !names.is_empty() {
            names.iter().for_each(|name| self.asked += &format!(" --only {name}"));
            self.part = true;
            self.figures.retain(|figure| names.contains(&figure.name));
        }
        Ok(self)
    }
    /// Changes the world, whatever the file names.
    pub fn inside(mut self, world: CellWorld) -> Campaign {
        if world != self.world {
            // Only deviations from the file belong to the command that repeats the campaign.
            self.asked += &format!(" --in {}", world.name());
        }
        self.world = world;
        self
    }
    /// Changes the number of runs of each point.
    pub fn repeated(mut self, repetitions: u64) -> Campaign {
        let repetitions = repetitions.clamp(1, crate::keys::REPETITIONS_MAX);
        if repetitions != self.repetitions {
            self.asked += &format!(" --repetitions {repetitions}");
        }
        self.repetitions = repetitions;
        self
    }
    /// Seeds of the repetitions.
    pub fn seeds(&self) -> Vec<u64> {
        (0..self.repetitions).map(|n| self.first_seed.wrapping_add(n)).collect()
    }
}
