//! Results as tables for other programs: one row per cell, and one row per point of each figure.

use crate::metrics::METRICS;
use crate::results::{Results, Spot};
use farlink_report::sheet::{ColumnValues, Sheet};

impl Results<'_> {
    /// Table with a row for each cell that ended: scenario, axis labels, seed, and all metrics.
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
            let of = |record: &&crate::folder::CellRecord| record.metrics.get(metric.name).copied().flatten();
            columns.push((metric.name.to_string(), ColumnValues::Real(records.iter().map(of).collect())));
        }
        Sheet { columns }
    }

    /// Table with a row for each point of each figure: the mean with half of its 95 % interval, the paired difference
    /// from the reference series with half of its interval and the p-value of the paired t-test, and the value that a
    /// paper gives.
    pub fn points(&self) -> Sheet {
        // Columns are collected side by side, because the tables are stored by column.
        let mut texts: [Vec<Option<String>>; 5] = Default::default();
        let mut reals: [Vec<Option<f64>>; 7] = Default::default();
        let mut counts = Vec::new();
        for figure in &self.plan.campaign.figures {
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
                            Some(figure.metric.name.to_string()),
                            named(figure.facet, facet),
                            named(figure.series, series),
                            named(Some(figure.x), Some(x)),
                        ];
                        texts.iter_mut().zip(words).for_each(|(column, word)| column.push(word));
                        let (mean, less) = (self.interval(figure, spot), self.difference(figure, spot));
                        // A point without runs is listed with a count of zero.
                        counts.push(Some(mean.map_or(0, |mean| mean.count as i64)));
                        let numbers = [
                            mean.map(|i| i.mean),
                            mean.and_then(|i| i.deviation),
                            mean.and_then(|i| i.half),
                            less.map(|i| i.mean),
                            less.and_then(|i| i.half),
                            less.and_then(|i| i.chance()),
                            self.paper(figure, spot),
                        ];
                        reals.iter_mut().zip(numbers).for_each(|(column, number)| column.push(number));
                    }
                }
            }
        }
        let words = ["figure", "metric", "facet", "series", "x"];
        let less = ["difference", "difference_half_interval", "difference_p"];
        let numbers = ["mean", "deviation", "half_interval"].into_iter().chain(less).chain(["paper"]);
        let mut columns: Vec<(String, ColumnValues)> =
            words.into_iter().zip(texts).map(|(name, column)| (name.to_string(), ColumnValues::Text(column))).collect();
        columns.push(("runs".to_string(), ColumnValues::Integer(counts)));
        columns.extend(numbers.zip(reals).map(|(name, column)| (name.to_string(), ColumnValues::Real(column))));
        Sheet { columns }
    }
}
