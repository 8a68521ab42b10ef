//! Results of all cells, by the points of figures.

use crate::folder::CellRecord;
use crate::numbers::Interval;
use crate::plan::{CampaignPlan, PlanCell};
use crate::types::Figure;
use std::collections::BTreeMap;

/// A point of a figure, by the indices of its axis values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Spot {
    pub x: usize,
    pub series: Option<usize>,
    pub facet: Option<usize>,
}

/// Records of the cells of a campaign that have ended so far.
#[derive(Debug)]
pub struct Results<'p> {
    /// Plan that the records belong to.
    pub plan: &'p CampaignPlan,
    records: BTreeMap<(usize, u64), CellRecord>,
}

impl<'p> Results<'p> {
    /// Indexes the records by point and seed.
    pub fn new(plan: &'p CampaignPlan, records: Vec<(PlanCell, CellRecord)>) -> Results<'p> {
        let records = records.into_iter().map(|(cell, record)| ((cell.configuration, cell.seed), record)).collect();
        Results { plan, records }
    }
    /// Iterates over the records in order of points and seeds.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, &CellRecord)> {
        self.records.iter().map(|((configuration, _), record)| (*configuration, record))
    }
    /// Number of cells that ran more than once because they were disturbed.
    pub fn repeated(&self) -> usize {
        self.records.values().filter(|record| !record.tries.is_empty()).count()
    }
    /// Cells whose last run was disturbed, with the first reason.
    pub fn disturbed(&self) -> Vec<(&str, &str)> {
        let records = self.records.values();
        records.filter_map(|record| Some((record.cell.as_str(), record.disturbances.first()?.as_str()))).collect()
    }
    /// Whether every cell ended.
    pub fn is_whole(&self) -> bool {
        self.records.len() == self.plan.cells().len()
    }
    /// Number of cells that ended, and number of all cells.
    pub fn count(&self) -> (usize, usize) {
        (self.records.len(), self.plan.cells().len())
    }
    pub(crate) fn has(&self, figure: &Figure, spot: Spot) -> bool {
        self.plan.at(figure, spot.x, spot.series, spot.facet).is_some()
    }
    /// Metric of the figure at a point, by seed; seeds without a value are left out.
    pub(crate) fn values(&self, figure: &Figure, spot: Spot) -> BTreeMap<u64, f64> {
        let Some(configuration) = self.plan.at(figure, spot.x, spot.series, spot.facet) else { return BTreeMap::new() };
        let of = |seed: u64| {
            let record = self.records.get(&(configuration, seed))?;
            record.metrics.get(figure.metric.name).copied().flatten().map(|value| (seed, value))
        };
        // In order of seeds, so that sums are rounded equally in every process.
        self.plan.campaign.seeds().into_iter().filter_map(of).collect()
    }
    /// Mean and interval of the metric over all seeds; `None` if no seed has a value.
    pub(crate) fn interval(&self, figure: &Figure, spot: Spot) -> Option<Interval> {
        Interval::of(&self.values(figure, spot).into_values().collect::<Vec<_>>())
    }
    /// Paired difference from the figure's reference series; `None` for the reference itself, and if they share no
    /// seed.
    pub(crate) fn difference(&self, figure: &Figure, spot: Spot) -> Option<Interval> {
        // The reference series at the same position and facet.
        let other = Spot { series: spot.series.map(|_| figure.against), ..spot };
        if spot.series.is_none_or(|series| series == figure.against) {
            return None;
        }
        Interval::of(&differences(&self.values(figure, spot), &self.values(figure, other)))
    }
    /// Values of an axis that this size keeps; a single `None` if there is no axis.
    pub(crate) fn kept(&self, axis: Option<usize>) -> Vec<Option<usize>> {
        axis.map_or(vec![None], |axis| self.plan.campaign.axes[axis].kept().map(Some).collect())
    }
    /// Positions on the horizontal axis at which the figure has a point.
    pub(crate) fn places(&self, figure: &Figure) -> Vec<usize> {
        let (series, facets) = (self.kept(figure.series), self.kept(figure.facet));
        let has = |x: &usize| {
            let at = |series: &Option<usize>, facet: &Option<usize>| {
                self.has(figure, Spot { x: *x, series: *series, facet: *facet })
            };
            series.iter().any(|series| facets.iter().any(|facet| at(series, facet)))
        };
        self.kept(Some(figure.x)).into_iter().flatten().filter(has).collect()
    }
    pub(crate) fn label(&self, axis: Option<usize>, value: Option<usize>) -> &str {
        axis.zip(value).map_or("", |(axis, value)| self.plan.campaign.axes[axis].values[value].label.as_str())
    }
    pub(crate) fn title(&self, axis: Option<usize>) -> &str {
        axis.map_or("", |axis| self.plan.campaign.axes[axis].title.as_str())
    }
}

/// Differences `one` less `other`, for the seeds that both have.
pub(crate) fn differences(one: &BTreeMap<u64, f64>, other: &BTreeMap<u64, f64>) -> Vec<f64> {
    one.iter().filter_map(|(seed, value)| Some(value - other.get(seed)?)).collect()
}
