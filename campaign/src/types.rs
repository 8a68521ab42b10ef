//! A campaign as its file says it.

use crate::keypath::KeyPath;
use crate::metrics::Metric;
use farlink_report::plot::Shape;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where cells run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// In simulation.
    Sim,
    /// In the testbed.
    Lab,
}
impl World {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Lab => "lab",
        }
    }
}

/// A key of the scenario, and the value it gets.
pub type Set = (KeyPath, toml::Value);

/// A campaign.
#[derive(Clone, PartialEq, Debug)]
pub struct Campaign {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// Its file.
    pub file: PathBuf,
    /// Where that is, and what paths in it are relative to.
    pub folder: PathBuf,
    /// Where its cells run.
    pub world: World,
    /// Runs of each point.
    pub repetitions: u64,
    /// Seed of the first.
    pub first_seed: u64,
    /// Set before the axes in scenarios that have these tables: what the small size says.
    pub set: Vec<Set>,
    /// What is varied, in the order of the file.
    pub axes: Vec<Axis>,
    /// Points left out: those at which each of these axes stands at one of these values.
    pub skips: Vec<Vec<(usize, Vec<usize>)>>,
    /// What is drawn.
    pub figures: Vec<Figure>,
    /// The small size.
    pub smoke: Option<Smoke>,
    /// Whether this is the small size.
    pub small: bool,
    /// Whether only some of its figures are left.
    pub part: bool,
    /// Figures that the small size leaves out.
    pub left_out: Vec<String>,
    /// What was asked for beside the file: the options that give this again.
    pub asked: String,
    /// Its text.
    pub text: String,
}

/// Something varied.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// What it is called in figures.
    pub title: String,
    /// Its values.
    pub values: Vec<AxisValue>,
}

/// A value of an axis.
#[derive(Clone, PartialEq, Debug)]
pub struct AxisValue {
    /// What it is called.
    pub label: String,
    /// What it sets.
    pub sets: Vec<Set>,
    /// Where in the file it stands, as a byte.
    pub place: usize,
    /// Whether it is part of this size.
    pub kept: bool,
}

impl Axis {
    /// The value of a label.
    pub fn value(&self, label: &str) -> Option<usize> {
        self.values.iter().position(|value| value.label == label)
    }
    /// The values of this size.
    pub fn kept(&self) -> impl Iterator<Item = usize> + '_ {
        self.values.iter().enumerate().filter(|(_, value)| value.kept).map(|(place, _)| place)
    }
}

/// What is drawn. Axes and values by their places.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// What stands above it.
    pub title: String,
    /// What is drawn.
    pub metric: &'static Metric,
    /// The scenario, relative to the campaign's folder.
    pub scenario: PathBuf,
    /// The horizontal axis.
    pub x: usize,
    /// The axis of series.
    pub series: Option<usize>,
    /// The axis of pictures.
    pub facet: Option<usize>,
    /// Where other axes stand.
    pub fixed: Vec<(usize, usize)>,
    /// How it is drawn.
    pub shape: Shape,
    /// The series that others are compared with.
    pub against: usize,
    /// What is claimed of it.
    pub claims: Vec<Claim>,
    /// Values of a paper.
    pub paper: Vec<Paper>,
    /// Where in the file it stands, as a byte.
    pub place: usize,
}

/// What would have to be so.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rule {
    /// Each of the series is above each of those compared with.
    Above,
    /// Below.
    Below,
    /// They differ by less than this share.
    Similar(f64),
    /// More at the last place than at the first.
    Rises,
    /// Less.
    Falls,
    /// The mean lies from here to there.
    Between(f64, f64),
}

/// At which places of the horizontal axis.
#[derive(Clone, PartialEq, Debug)]
pub enum At {
    /// The mean over all.
    Mean,
    /// At each of these.
    Each(Vec<usize>),
}

/// What somebody claims of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// In words.
    pub text: String,
    /// What would have to be so.
    pub rule: Rule,
    /// Of which series; where the figure has none, of the only one, 0.
    pub series: Vec<usize>,
    /// Compared with which.
    pub than: Vec<usize>,
    /// In which pictures; where the figure has none, in the only one, 0.
    pub facets: Vec<usize>,
    /// Where.
    pub at: At,
}

/// Values that a paper gives, by the places of the horizontal axis's values.
#[derive(Clone, PartialEq, Debug)]
pub struct Paper {
    /// Of which series.
    pub series: usize,
    /// In which picture; `None`: in all.
    pub facet: Option<usize>,
    /// The values.
    pub values: Vec<f64>,
}

/// The small size.
#[derive(Clone, PartialEq, Debug)]
pub struct Smoke {
    /// Runs of each point.
    pub repetitions: u64,
    /// Set besides, in scenarios that have these tables.
    pub set: Vec<Set>,
    /// Values that are kept, by axis; axes that are not named keep all.
    pub values: Vec<(usize, Vec<usize>)>,
    /// Names of figures that are kept; empty: all.
    pub figures: Vec<String>,
}

impl Campaign {
    /// The small size of it; without `[smoke]`, the same with two repetitions at most.
    pub fn smaller(mut self) -> Campaign {
        self.small = true;
        self.asked += " --smoke";
        let Some(smoke) = self.smoke.clone() else {
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
            self.left_out = self.figures.iter().map(|figure| figure.name.clone()).collect();
            self.left_out.retain(|name| !smoke.figures.contains(name));
            self.figures.retain(|figure| smoke.figures.contains(&figure.name));
        }
        self
    }
    /// Only figures of these names.
    ///
    /// # Errors
    /// A name that no figure has, and those there are.
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
    /// In this world, whatever its file says.
    pub fn inside(mut self, world: World) -> Campaign {
        if world != self.world {
            self.asked += &format!(" --in {}", world.name());
        }
        self.world = world;
        self
    }
    /// With so many runs of each point.
    pub fn repeated(mut self, repetitions: u64) -> Campaign {
        let repetitions = repetitions.clamp(1, crate::keys::REPETITIONS_MAX);
        if repetitions != self.repetitions {
            self.asked += &format!(" --repetitions {repetitions}");
        }
        self.repetitions = repetitions;
        self
    }
    /// The seeds, one for each repetition.
    pub fn seeds(&self) -> Vec<u64> {
        (0..self.repetitions).map(|n| self.first_seed.wrapping_add(n)).collect()
    }
}
