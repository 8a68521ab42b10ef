//! Results of all cells, by the points of figures.

use crate::folder::CellRecord;
use crate::measure::Measured;
use crate::numbers::{ConfidenceLevel, Interval, hedges_g};
use crate::plan::{CampaignPlan, PlanCell};
use crate::types::Figure;
use farlink_report::Quantity;
use std::collections::BTreeMap;

/// A point of a figure, by the indices of its axis values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Spot {
    pub x: Option<usize>,
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
    /// Records of the runs of a point, by seed.
    pub(crate) fn runs(&self, figure: &Figure, spot: Spot) -> impl Iterator<Item = (u64, &CellRecord)> {
        let configuration = self.plan.at(figure, spot.x, spot.series, spot.facet);
        // In order of seeds, so that sums are rounded equally in every process.
        let seeds = configuration.map(|_| self.plan.campaign.seeds()).unwrap_or_default();
        seeds.into_iter().filter_map(move |seed| Some((seed, self.records.get(&(configuration?, seed))?)))
    }
    /// Values of a metric at a point, by seed. If the metric is a distribution, each value is its `quantile` (0 to 1).
    /// Seeds without a value are left out.
    pub(crate) fn values_of(
        &self,
        figure: &Figure,
        spot: Spot,
        measured: &Measured,
        quantile: f64,
    ) -> BTreeMap<u64, f64> {
        self.runs(figure, spot).filter_map(|(seed, run)| Some((seed, run.numbers.value(measured, quantile)?))).collect()
    }
    /// Values of the figure's metric at a point, by seed; medians if the metric is a distribution.
    pub(crate) fn values(&self, figure: &Figure, spot: Spot) -> BTreeMap<u64, f64> {
        self.values_of(figure, spot, &figure.measured, 0.5)
    }
    /// Mean and interval of the figure's metric over all seeds.
    pub(crate) fn interval(&self, figure: &Figure, spot: Spot) -> Option<Interval> {
        Interval::at(&self.values(figure, spot).into_values().collect::<Vec<_>>(), figure.level)
    }
    /// Paired difference from the figure's reference series; `None` for the reference itself.
    pub(crate) fn difference(&self, figure: &Figure, spot: Spot) -> Option<Difference> {
        // The reference series at the same position and facet.
        let other = Spot { series: spot.series.map(|_| figure.against), ..spot };
        if spot.series.is_none_or(|series| series == figure.against) {
            return None;
        }
        Difference::of(&self.values(figure, spot), &self.values(figure, other), figure.level)
    }
    /// Values of an axis that the campaign keeps: fewer in its small size. A single `None` if there is no axis.
    pub(crate) fn kept(&self, axis: Option<usize>) -> Vec<Option<usize>> {
        axis.map_or(vec![None], |axis| self.plan.campaign.axes[axis].kept().map(Some).collect())
    }
    /// Positions on the horizontal axis at which the figure has a point; a single `None` if it has no such axis.
    pub(crate) fn places(&self, figure: &Figure) -> Vec<Option<usize>> {
        let (series, facets) = (self.kept(figure.series), self.kept(figure.facet));
        let has = |x: &Option<usize>| {
            let at = |series: &Option<usize>, facet: &Option<usize>| {
                self.has(figure, Spot { x: *x, series: *series, facet: *facet })
            };
            series.iter().any(|series| facets.iter().any(|facet| at(series, facet)))
        };
        self.kept(figure.x).into_iter().filter(has).collect()
    }
    pub(crate) fn label(&self, axis: Option<usize>, value: Option<usize>) -> &str {
        axis.zip(value).map_or("", |(axis, value)| self.plan.campaign.axes[axis].values[value].label.as_str())
    }
    pub(crate) fn title(&self, axis: Option<usize>) -> &str {
        axis.map_or("", |axis| self.plan.campaign.axes[axis].title.as_str())
    }
}

/// Difference of two series, seed by seed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Difference {
    /// Mean of the differences with its interval.
    pub interval: Interval,
    /// Hedges' g of the two series; `None` where runs hardly vary.
    pub effect: Option<f64>,
}

impl Difference {
    /// Compares the seeds that both have; `None` if they share no seed.
    pub fn of(one: &BTreeMap<u64, f64>, other: &BTreeMap<u64, f64>, level: ConfidenceLevel) -> Option<Difference> {
        let both: Vec<(f64, f64)> = one.iter().filter_map(|(seed, value)| Some((*value, *other.get(seed)?))).collect();
        let differences: Vec<f64> = both.iter().map(|(one, other)| one - other).collect();
        let (one, other): (Vec<f64>, Vec<f64>) = both.into_iter().unzip();
        let scale = one.iter().chain(&other).fold(0.0f64, |most, value| most.max(value.abs()));
        Some(Difference { interval: Interval::of_scale(&differences, level, scale)?, effect: hedges_g(&one, &other) })
    }
    /// Effect size in words, with a comma before; empty without an effect size.
    pub fn effect_text(&self) -> String {
        // Equal series need no measure of their distance.
        let effect = self.effect.filter(|_| self.interval.mean != 0.0);
        effect.map_or(String::new(), |effect| format!(", g {}", Quantity::Ratio.text(effect)))
    }
}
