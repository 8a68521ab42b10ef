//! Campaigns: a scenario, axes along which it is varied, repetitions, and the resulting figures and claims.
//!
//! This crate contains no world: the caller of [`run`] provides a [`Runner`] that runs one cell, in this process or as
//! a child. Results do not depend on the order in which cells end, so a campaign that was killed and resumed gives
//! byte-identical tables. Read [`Campaign`] and [`CampaignPlan`] first, then `verdict.rs`, which defines when a claim is
//! confirmed or contradicted.
#![forbid(unsafe_code)]

mod details;
mod docs;
mod figures;
mod folder;
mod judgement;
mod keypath;
#[allow(missing_docs, reason = "each constant is a table of the campaign file, named like it")]
pub mod keys;
mod measure;
mod metrics;
mod numbers;
mod page;
mod parse;
mod parse_figure;
mod parse_measured;
mod plan;
mod queue;
mod ran;
mod results;
mod run;
mod run_samples;
mod student;
mod tables;
mod text;
mod types;
mod verdict;

pub use docs::reference;
pub use folder::{CampaignFolder, CampaignStatus, CellRecord, DisturbedTry};
pub use judgement::{ClaimCounts, ClaimVerdict, Judgement};
pub use keypath::KeyPath;
pub use keys::REPETITIONS_MAX;
pub use measure::{CellNumbers, KeptSample, Measured, cell_numbers, measure};
pub use metrics::{METRICS, Metric, MetricScope, SAMPLES};
pub use numbers::{ConfidenceLevel, Interval, hedges_g, holm, student_t};
pub use plan::{CampaignPlan, Configuration, PlanCell};
pub use results::Results;
pub use run::{CampaignOptions, CampaignProgress, CellEnd, CellJob, Runner, Summary, run};
pub use types::{
    Axis, AxisValue, Campaign, CellWorld, Claim, ClaimRule, Figure, FigurePart, FigureShape, Paper, Smoke,
};
