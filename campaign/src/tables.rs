//! Results as tables for other programs: one row per cell, and one row per point of each figure.

use crate::measure::Measured;
use crate::metrics::METRICS;
use crate::numbers::holm;
use crate::results::{Results, Spot};
use crate::types::Figure;
use farlink_report::sheet::{ColumnValues, Sheet};

// Index of the column of p-values in `reals` of [`Results::points`].
const CHANCE: usize = 5;

impl Results<'_> {
    /// Table with a row for each cell that ended: scenario, axis labels, seed, all metrics, and those of
    /// phases and nodes that figures show.
    pub fn cells(&self) -> Sheet {
        let records: Vec<_> = self.records().map(|(_, record)| record).collect();
        let texts = |of: &dyn Fn(&crate::folder::CellRecord) -> Option<String>| {
            ColumnValues::Text(records.iter().map(|record| of(record)).collect())
        };
        let mut columns = vec![
            ("cell".to_string(), texts(&|record| Some(record.cell.clone()))),
            ("scenario".to_string(), texts(&|record| Some(record.scenario.clone()))),
        ];
        for axis in &self.plan.campaign.axes {
            columns.push((axis.name.clone(), texts(&|record| record.values.get(&axis.name).cloned())));
        }
        columns
            .push(("seed".to_string(), ColumnValues::Integer(records.iter().map(|r| Some(r.seed as i64)).collect())));
        for metric in METRICS {
            let of = |record: &&crate::folder::CellRecord| record.numbers.metrics.get(metric.name).copied().flatten();
            columns.push((metric.name.to_string(), ColumnValues::Real(records.iter().map(of).collect())));
        }
        // A metric of a phase or node has a column only if a figure shows it: all of them would be too many columns.
        let mut narrowed: Vec<&Measured> = Vec::new();
        let shown = self.plan.campaign.figures.iter().flat_map(Figure::shown);
        for shown in shown.filter(|shown| !shown.is_whole() && !shown.metric.is_sample()) {
            if !narrowed.contains(&shown) {
                narrowed.push(shown);
            }
        }
        for measured in narrowed {
            let of = |record: &&crate::folder::CellRecord| record.numbers.value(measured, 0.5);
            columns.push((measured.key(), ColumnValues::Real(records.iter().map(of).collect())));
        }
        Sheet { columns }
    }

    /// Table with a row for each point of each figure: mean and paired difference from the reference series, each with
    /// half of its interval; p-value of the paired t-test, also adjusted for the number of differences in the figure;
    /// Hedges' g; and the value that a paper gives. For distributions, all numbers are those of medians.
    pub fn points(&self) -> Sheet {
        // Columns are collected side by side, because the tables are stored by column.
        let mut texts: [Vec<Option<String>>; 7] = Default::default();
        let mut reals: [Vec<Option<f64>>; 9] = Default::default();
        let mut counts = Vec::new();
        for figure in &self.plan.campaign.figures {
            let begin = counts.len();
            for facet in self.kept(figure.facet) {
                for series in self.series(figure, facet) {
                    for x in self.places(figure) {
                        let spot = Spot { x, series, facet };
                        if !self.has(figure, spot) {
                            continue;
                        }
                        let named = |axis: Option<usize>, value| axis.map(|_| self.label(axis, value).to_string());
                        let words = [
                            Some(figure.name.clone()),
                            Some(figure.measured.metric.name.to_string()),
                            figure.measured.phase.clone(),
                            figure.measured.node.clone(),
                            named(figure.facet, facet),
                            named(figure.series, series),
                            named(figure.x, x),
                        ];
                        texts.iter_mut().zip(words).for_each(|(column, word)| column.push(word));
                        let (mean, less) = (self.interval(figure, spot), self.difference(figure, spot));
                        // A point without runs is listed with a count of zero.
                        counts.push(Some(mean.map_or(0, |mean| mean.count as i64)));
                        let numbers = [
                            mean.map(|i| i.mean),
                            mean.and_then(|i| i.deviation),
                            mean.and_then(|i| i.half),
                            less.map(|less| less.interval.mean),
                            less.and_then(|less| less.interval.half),
                            less.and_then(|less| less.interval.chance()),
                            // Adjusted p-value, which needs all differences of the figure and is filled in below.
                            None,
                            less.and_then(|less| less.effect),
                            self.paper(figure, spot),
                        ];
                        reals.iter_mut().zip(numbers).for_each(|(column, number)| column.push(number));
                    }
                }
            }
            let chances: Vec<f64> = reals[CHANCE][begin..].iter().flatten().copied().collect();
            let mut adjusted = holm(&chances).into_iter();
            let of = |chance: &Option<f64>| chance.and_then(|_| adjusted.next());
            let adjusted: Vec<Option<f64>> = reals[CHANCE][begin..].iter().map(of).collect();
            reals[CHANCE + 1].truncate(begin);
            reals[CHANCE + 1].extend(adjusted);
        }
        let words = ["figure", "metric", "phase", "node", "facet", "series", "x"];
        let less = ["difference", "difference_half_interval", "difference_p", "difference_p_adjusted", "difference_g"];
        let numbers = ["mean", "deviation", "half_interval"].into_iter().chain(less).chain(["paper"]);
        let mut columns: Vec<(String, ColumnValues)> =
            words.into_iter().zip(texts).map(|(name, column)| (name.to_string(), ColumnValues::Text(column))).collect();
        columns.push(("runs".to_string(), ColumnValues::Integer(counts)));
        columns.extend(numbers.zip(reals).map(|(name, column)| (name.to_string(), ColumnValues::Real(column))));
        Sheet { columns }
    }
}
