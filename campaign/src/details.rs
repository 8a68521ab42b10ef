//! Tables of what figures show beside means: quantiles of distributions, parts of stacks, spreads.

use crate::measure::Measured;
use crate::numbers::Interval;
use crate::results::{Results, Spot};
use crate::types::{Figure, FigureShape};
use farlink_report::{Quantity, Spread};

// Quantiles of distributions in tables.
const QUANTILES: [f64; 6] = [0.05, 0.25, 0.5, 0.75, 0.9, 0.99];

/// A table of texts: the head, and rows of equal length.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct DetailTable {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// Mean, standard deviation and quartiles at a point.
#[derive(Clone, Copy, PartialEq, Debug)]
struct SpreadRow {
    runs: usize,
    mean: Interval,
    sd: f64,
    quartiles: [f64; 3],
}

/// Quantity whose numbers are formatted without a unit, for values of `quantity` in a table whose title has the unit.
pub(crate) fn unitless(quantity: Quantity) -> Quantity {
    if quantity == Quantity::Count { Quantity::Count } else { Quantity::Ratio }
}

/// Formats a number without its unit, which the title of the table has.
pub(crate) fn plain(value: f64, quantity: Quantity) -> String {
    unitless(quantity).text(value)
}

/// Formats an interval without its unit, which the title of the table has.
pub(crate) fn plain_interval(interval: &Interval, quantity: Quantity) -> String {
    interval.estimate().text(unitless(quantity))
}

impl Results<'_> {
    /// Table of one facet; `None` for figures that show means only.
    pub(crate) fn details(&self, figure: &Figure, facet: Option<usize>) -> Option<DetailTable> {
        match figure.shape {
            FigureShape::Lines | FigureShape::Bars => None,
            FigureShape::Ecdf => Some(self.quantiles(figure, facet)),
            FigureShape::Stack => Some(self.parts(figure, facet)),
            FigureShape::Table => Some(self.spreads(figure, facet)),
        }
    }

    /// Title of the first column, whose cells hold labels: the titles of the axes of series and positions.
    fn first_title(&self, figure: &Figure) -> String {
        let titles = [self.title(figure.series), self.title(figure.x)];
        titles.into_iter().filter(|title| !title.is_empty()).collect::<Vec<_>>().join(", ")
    }

    fn quantiles(&self, figure: &Figure, facet: Option<usize>) -> DetailTable {
        let quantity = figure.measured.metric.quantity;
        let title = |q: &f64| if *q == 0.5 { "median".to_string() } else { Quantity::Share.text(*q) };
        let mut head = vec![self.first_title(figure)];
        head.extend(QUANTILES.iter().map(title));
        head.push("values".into());
        let row = |(spot, label): (Spot, String)| {
            let at = |q: &f64| {
                let values: Vec<f64> = self.values_of(figure, spot, &figure.measured, *q).into_values().collect();
                let found = Interval::at(&values, figure.level);
                found.map_or("-".into(), |found| match *q == 0.5 {
                    true => plain_interval(&found, quantity),
                    false => plain(found.mean, quantity),
                })
            };
            let key = figure.measured.key();
            let counts = self.runs(figure, spot).filter_map(|(_, run)| Some(run.numbers.samples.get(&key)?.count));
            let mut row = vec![label];
            row.extend(QUANTILES.iter().map(at));
            row.push(Quantity::Count.text(counts.sum::<u64>() as f64));
            row
        };
        DetailTable { head, rows: self.rows(figure, facet).into_iter().map(row).collect() }
    }

    fn parts(&self, figure: &Figure, facet: Option<usize>) -> DetailTable {
        let mut head = vec![self.first_title(figure)];
        head.extend(figure.parts.iter().map(|part| part.label.clone()));
        let row = |(spot, label): (Spot, String)| {
            let part = |measured: &Measured| {
                let values: Vec<f64> = self.values_of(figure, spot, measured, 0.5).into_values().collect();
                let found = Interval::at(&values, figure.level);
                found.map_or("-".into(), |found| plain_interval(&found, measured.metric.quantity))
            };
            std::iter::once(label).chain(figure.parts.iter().map(|one| part(&one.measured))).collect()
        };
        DetailTable { head, rows: self.rows(figure, facet).into_iter().map(row).collect() }
    }

    fn spreads(&self, figure: &Figure, facet: Option<usize>) -> DetailTable {
        let parts: Vec<(&str, &Measured)> = match figure.parts[..] {
            [] => vec![("", &figure.measured)],
            _ => figure.parts.iter().map(|part| (part.label.as_str(), &part.measured)).collect(),
        };
        let named = !figure.parts.is_empty();
        let mut head = vec![self.first_title(figure)];
        head.extend(named.then(String::new));
        head.extend(["runs", "mean", "sd", "25 %", "50 %", "75 %"].map(String::from));
        let mut rows = Vec::new();
        for (spot, label) in self.rows(figure, facet) {
            for (part, measured) in &parts {
                let quantity = measured.metric.quantity;
                let mut row = vec![label.clone()];
                row.extend(named.then(|| part.to_string()));
                row.extend(match self.spread(figure, spot, measured) {
                    None => ["0", "-", "-", "-", "-", "-"].map(String::from).to_vec(),
                    Some(SpreadRow { runs, mean, sd, quartiles }) => {
                        let numbers = std::iter::once(sd).chain(quartiles).map(|value| plain(value, quantity));
                        [runs.to_string(), plain_interval(&mean, quantity)].into_iter().chain(numbers).collect()
                    }
                });
                rows.push(row);
            }
        }
        DetailTable { head, rows }
    }

    /// Spread of the samples within runs, averaged over the runs; for metrics without samples, spread of the runs'
    /// values.
    fn spread(&self, figure: &Figure, spot: Spot, measured: &Measured) -> Option<SpreadRow> {
        let within: Vec<Spread> = self.runs(figure, spot).filter_map(|(_, run)| run.numbers.spread(measured)).collect();
        let values: Vec<f64> = self.values_of(figure, spot, measured, 0.5).into_values().collect();
        let over = |of: fn(&Spread) -> f64| within.iter().map(of).sum::<f64>() / within.len() as f64;
        if within.is_empty() {
            let Spread { sd, p25, p50, p75, .. } = Spread::of(values.clone())?;
            let mean = Interval::at(&values, figure.level)?;
            return Some(SpreadRow { runs: values.len(), mean, sd, quartiles: [p25, p50, p75] });
        }
        let means: Vec<f64> = within.iter().map(|spread| spread.mean).collect();
        Some(SpreadRow {
            runs: within.len(),
            mean: Interval::at(&means, figure.level)?,
            sd: over(|spread| spread.sd),
            quartiles: [over(|s| s.p25), over(|s| s.p50), over(|s| s.p75)],
        })
    }
}
