//! A campaign, as read from its file.

use crate::keypath::KeyPath;
use crate::measure::Measured;
use crate::numbers::ConfidenceLevel;
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
    /// All worlds, in the order of [`WORLDS`](crate::keys::WORLDS).
    pub const ALL: [CellWorld; 2] = [CellWorld::Sim, CellWorld::Lab];
    /// Name in messages.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            CellWorld::Sim => "simulation",
            CellWorld::Lab => "testbed",
        }
    }
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
    /// Most repetitions of a disturbed cell.
    pub retries: u64,
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
    /// Whether the campaign was reduced to some of its figures ([`Campaign::only`]).
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
    /// Quantity of the vertical axis; in a distribution, of the horizontal one.
    pub measured: Measured,
    /// Quantities shown in place of `measured`: parts of a stack, or groups of a table.
    pub parts: Vec<FigurePart>,
    /// Quantity drawn as a dashed line across all series.
    pub reference: Option<Measured>,
    /// Level of its intervals and claims.
    pub level: ConfidenceLevel,
    /// Path of the scenario file, relative to the campaign's folder.
    pub scenario: PathBuf,
    /// World without which the figure is left out; `None` if it is of both.
    pub world: Option<CellWorld>,
    /// Index of the horizontal axis; in distributions and tables, of an axis whose values are further curves or rows.
    pub x: Option<usize>,
    /// Index of the axis whose values are series.
    pub series: Option<usize>,
    /// Index of the axis whose values are separate plots; `None` for a single plot.
    pub facet: Option<usize>,
    /// Values fixed for other axes, as pairs of axis and value indices.
    pub fixed: Vec<(usize, usize)>,
    /// Form in which it is drawn.
    pub shape: FigureShape,
    /// Index of the reference series that others are compared with.
    pub against: usize,
    /// Claims about the figure.
    pub claims: Vec<Claim>,
    /// Values that papers give for the figure.
    pub paper: Vec<Paper>,
    /// Byte offset of the figure in the campaign file, for errors.
    pub place: usize,
}

/// Form in which a figure is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FigureShape {
    /// Points joined by lines.
    Lines,
    /// Bars side by side.
    Bars,
    /// Distributions within runs.
    Ecdf,
    /// Bars of parts that add up.
    Stack,
    /// Mean, standard deviation and quartiles.
    Table,
}
impl FigureShape {
    /// Shapes in the order of [`crate::keys::SHAPES`].
    pub const ALL: [FigureShape; 5] =
        [FigureShape::Lines, FigureShape::Bars, FigureShape::Ecdf, FigureShape::Stack, FigureShape::Table];
    /// Whether values stand along a horizontal axis.
    pub const fn has_positions(self) -> bool {
        matches!(self, FigureShape::Lines | FigureShape::Bars | FigureShape::Stack)
    }
}

/// A part of a stack, or a group of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct FigurePart {
    /// Name in the legend or the table.
    pub label: String,
    /// Quantity that it shows.
    pub measured: Measured,
}

/// Condition under which a claim holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ClaimRule {
    /// Each series is above each reference, by more than this fraction of the reference.
    Above(f64),
    /// Each series is below each reference, by more than this fraction of the reference.
    Below(f64),
    /// Series and references differ by less than this fraction of the reference.
    Similar(f64),
    /// The metric is larger at the last position of the horizontal axis than at the first.
    Rises,
    /// The metric is smaller at the last position than at the first.
    Falls,
    /// The mean lies between these values, ends included; if they are the same, every run has this value.
    Between(f64, f64),
}
impl ClaimRule {
    /// Whether it compares series with each other.
    pub(crate) const fn compares_series(self) -> bool {
        matches!(self, ClaimRule::Above(_) | ClaimRule::Below(_) | ClaimRule::Similar(_))
    }
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
    /// Quantile (0 to 1) that is compared if the figure shows distributions.
    pub quantile: f64,
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
    /// Quantile (0 to 1) that the values are if the figure shows distributions.
    pub quantile: f64,
}

/// Definition of the campaign's small size, for tests and for a quick first result.
#[derive(Clone, PartialEq, Debug)]
pub struct Smoke {
    /// Number of runs of each point.
    pub repetitions: u64,
    /// Most repetitions of a disturbed cell, if other than the campaign's.
    pub retries: Option<u64>,
    /// Assignments made before those of the axes, in scenarios that have the tables.
    pub set: Vec<Set>,
    /// Values kept, by axis; axes not listed keep all.
    pub values: Vec<(usize, Vec<usize>)>,
    /// Names of the figures kept; empty for all.
    pub figures: Vec<String>,
}

impl Figure {
    /// All quantities that the figure shows.
    pub fn shown(&self) -> impl Iterator<Item = &Measured> {
        std::iter::once(&self.measured).chain(self.parts.iter().map(|part| &part.measured)).chain(&self.reference)
    }
}

impl Campaign {
    /// Figures and metrics of a simulated campaign that only the testbed measures.
    pub fn unmeasured(&self) -> Vec<(&str, &'static str)> {
        let figures = self.figures.iter().filter(|_| self.world == CellWorld::Sim);
        let all = figures.flat_map(|figure| figure.shown().map(|shown| (figure.name.as_str(), shown.metric)));
        all.filter(|(_, metric)| metric.is_of_testbed()).map(|(figure, metric)| (figure, metric.name)).collect()
    }
    /// Distributions that its figures show, which cells keep.
    pub fn samples(&self) -> Vec<Measured> {
        let mut samples: Vec<Measured> = Vec::new();
        for shown in self.figures.iter().flat_map(Figure::shown).filter(|shown| shown.metric.is_sample()) {
            if !samples.contains(shown) {
                samples.push(shown.clone());
            }
        }
        samples
    }
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
        self.retries = smoke.retries.unwrap_or(self.retries);
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
    /// Removes the figures of the other world, and returns them.
    pub(crate) fn leave_out_other_world(&mut self) -> Vec<Figure> {
        let world = self.world;
        let other = |figure: &Figure| figure.world.is_some_and(|needed| needed != world);
        let left_out: Vec<Figure> = self.figures.iter().filter(|figure| other(figure)).cloned().collect();
        self.figures.retain(|figure| !other(figure));
        // Assignments of the small size may be about their scenarios alone.
        self.part |= !left_out.is_empty();
        left_out
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
