//! What came of all cells, by the points of figures.

use crate::folder::Record;
use crate::numbers::Interval;
use crate::plan::{Cell, Plan};
use crate::types::Figure;
use std::collections::BTreeMap;

/// A point of a figure: places of values on its axes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Spot {
    pub x: usize,
    pub series: Option<usize>,
    pub facet: Option<usize>,
}

/// Everything that came of a campaign so far.
#[derive(Debug)]
pub struct Results<'p> {
    /// What was planned.
    pub plan: &'p Plan,
    records: BTreeMap<(usize, u64), Record>,
}

impl<'p> Results<'p> {
    /// Of these cells.
    pub fn new(plan: &'p Plan, records: Vec<(Cell, Record)>) -> Results<'p> {
        let records = records.into_iter().map(|(cell, record)| ((cell.configuration, cell.seed), record)).collect();
        Results { plan, records }
    }
    /// All cells that ended, by points and seeds.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, &Record)> {
        self.records.iter().map(|((configuration, _), record)| (*configuration, record))
    }
    /// Whether every cell ended.
    pub fn is_whole(&self) -> bool {
        self.records.len() == self.plan.cells().len()
    }
    /// How many cells ended, of how many.
    pub fn count(&self) -> (usize, usize) {
        (self.records.len(), self.plan.cells().len())
    }
    /// Whether a point is part of this size.
    pub(crate) fn has(&self, figure: &Figure, spot: Spot) -> bool {
        self.plan.at(figure, spot.x, spot.series, spot.facet).is_some()
    }
    /// The figure's metric at a point, by seeds; seeds without it are left out.
    pub(crate) fn values(&self, figure: &Figure, spot: Spot) -> BTreeMap<u64, f64> {
        let Some(configuration) = self.plan.at(figure, spot.x, spot.series, spot.facet) else { return BTreeMap::new() };
        let of = |seed: u64| {
            let record = self.records.get(&(configuration, seed))?;
            record.metrics.get(figure.metric.name).copied().flatten().map(|value| (seed, value))
        };
        self.plan.campaign.seeds().into_iter().filter_map(of).collect()
    }
    /// Its mean over all seeds.
    pub(crate) fn interval(&self, figure: &Figure, spot: Spot) -> Option<Interval> {
        Interval::of(&self.values(figure, spot).into_values().collect::<Vec<_>>())
    }
    /// The difference from the figure's series of comparison, seed by seed; `None` for that itself.
    pub(crate) fn difference(&self, figure: &Figure, spot: Spot) -> Option<Interval> {
        let other = Spot { series: spot.series.map(|_| figure.against), ..spot };
        if spot.series.is_none_or(|series| series == figure.against) {
            return None;
        }
        Interval::of(&differences(&self.values(figure, spot), &self.values(figure, other)))
    }
    /// The values of an axis that are part of this size; one without a name where there is no axis.
    pub(crate) fn kept(&self, axis: Option<usize>) -> Vec<Option<usize>> {
        axis.map_or(vec![None], |axis| self.plan.campaign.axes[axis].kept().map(Some).collect())
    }
    /// The places of the horizontal axis at which the figure has a point.
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
    /// The label of a value.
    pub(crate) fn label(&self, axis: Option<usize>, value: Option<usize>) -> &str {
        axis.zip(value).map_or("", |(axis, value)| self.plan.campaign.axes[axis].values[value].label.as_str())
    }
    /// What an axis is called.
    pub(crate) fn title(&self, axis: Option<usize>) -> &str {
        axis.map_or("", |axis| self.plan.campaign.axes[axis].title.as_str())
    }
}

/// One minus the other, for seeds that both have.
pub(crate) fn differences(one: &BTreeMap<u64, f64>, other: &BTreeMap<u64, f64>) -> Vec<f64> {
    one.iter().filter_map(|(seed, value)| Some(value - other.get(seed)?)).collect()
}
