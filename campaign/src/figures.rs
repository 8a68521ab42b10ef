//! Figures of a campaign's results.

use crate::measure::Measured;
use crate::numbers::Interval;
use crate::results::{Results, Spot};
use crate::types::{Figure, FigureShape};
use farlink_report::distribution::{DistributionCurve, DistributionPlot};
use farlink_report::drawing::Drawing;
use farlink_report::plot::{Estimate, Plot, PlotShape, ReferenceLine, Series};
use farlink_report::stack::{StackBar, StackBars, StackPlot};

/// Drawings of a figure by the labels of its facets.
type FacetDrawings = Vec<(String, Box<dyn Drawing>)>;

impl Results<'_> {
    /// Value that a paper gives for a point of the figure. If the figure shows distributions, the paper's value of the
    /// median.
    pub(crate) fn paper(&self, figure: &Figure, spot: Spot) -> Option<f64> {
        self.papers(figure, spot).find(|(_, quantile)| *quantile == 0.5).map(|(value, _)| value)
    }

    /// Values that papers give for a point of the figure, each with the quantile (0 to 1) that it is.
    pub(crate) fn papers(&self, figure: &Figure, spot: Spot) -> impl Iterator<Item = (f64, f64)> {
        let here = move |paper: &&crate::types::Paper| {
            paper.series == spot.series.unwrap_or(0) && paper.facet.is_none_or(|facet| Some(facet) == spot.facet)
        };
        let value =
            move |paper: &crate::types::Paper| Some((paper.values.get(spot.x.unwrap_or(0)).copied()?, paper.quantile));
        figure.paper.iter().filter(here).filter_map(value)
    }

    /// Drawings of a figure, one for each value of its facet axis with that value's label; all show the same range of
    /// values. A table has no drawing.
    pub fn plots(&self, figure: &Figure) -> FacetDrawings {
        let facets = || self.kept(figure.facet).into_iter();
        let label = |facet| self.label(figure.facet, facet).to_string();
        // Axes of the same range make the facets comparable at a glance.
        match figure.shape {
            FigureShape::Table => Vec::new(),
            FigureShape::Lines | FigureShape::Bars => {
                let plots: Vec<Plot> = facets().map(|facet| self.plot(figure, facet)).collect();
                let most = plots.iter().map(Plot::largest).fold(0.0, f64::max);
                let drawn = |plot| Box::new(Plot { most: Some(most), ..plot }) as Box<dyn Drawing>;
                facets().map(label).zip(plots.into_iter().map(drawn)).collect()
            }
            FigureShape::Stack => {
                let plots: Vec<StackPlot> = facets().map(|facet| self.stack(figure, facet)).collect();
                let most = plots.iter().map(StackPlot::largest).fold(0.0, f64::max);
                let drawn = |plot| Box::new(StackPlot { most: Some(most), ..plot }) as Box<dyn Drawing>;
                facets().map(label).zip(plots.into_iter().map(drawn)).collect()
            }
            FigureShape::Ecdf => {
                let plots: Vec<DistributionPlot> = facets().map(|facet| self.distribution(figure, facet)).collect();
                let most = plots.iter().map(DistributionPlot::largest).fold(0.0, f64::max);
                let drawn = |plot| Box::new(DistributionPlot { most: Some(most), ..plot }) as Box<dyn Drawing>;
                facets().map(label).zip(plots.into_iter().map(drawn)).collect()
            }
        }
    }

    fn description(&self, figure: &Figure, facet: Option<usize>) -> String {
        let words = [figure.title.as_str(), self.label(figure.facet, facet)];
        words.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    fn x_labels(&self, figure: &Figure) -> Vec<String> {
        self.places(figure).into_iter().map(|x| self.label(figure.x, x).to_string()).collect()
    }

    fn plot(&self, figure: &Figure, facet: Option<usize>) -> Plot {
        let xs = self.places(figure);
        let one = |series: Option<usize>| {
            let spot = |x: &Option<usize>| Spot { x: *x, series, facet };
            let label = self.label(figure.series, series);
            Series {
                label: if label.is_empty() { figure.measured.metric.title.to_string() } else { label.to_string() },
                // Colour 0 is grey, which suits a reference series but not a single one.
                colour: series.unwrap_or(1),
                points: xs.iter().map(|x| self.interval(figure, spot(x)).map(|found| found.estimate())).collect(),
                paper: xs.iter().map(|x| self.paper(figure, spot(x))).collect(),
            }
        };
        Plot {
            label: self.description(figure, facet),
            x_title: self.title(figure.x).to_string(),
            x: self.x_labels(figure),
            y_title: figure.measured.title(),
            quantity: figure.measured.metric.quantity,
            most: None,
            limit: figure.measured.metric.limits().1,
            series: self.series(figure, facet).into_iter().map(one).collect(),
            shape: if figure.shape == FigureShape::Bars { PlotShape::Bars } else { PlotShape::Lines },
            reference: figure.reference.as_ref().map(|measured| self.reference(figure, facet, measured)),
        }
    }

    /// Mean of a metric over the runs of all series at each position.
    fn reference(&self, figure: &Figure, facet: Option<usize>, measured: &Measured) -> ReferenceLine {
        let at = |x: Option<usize>| {
            let spots = self.series(figure, facet).into_iter().map(|series| Spot { x, series, facet });
            let values = spots.flat_map(|spot| self.values_of(figure, spot, measured, 0.5).into_values());
            Interval::at(&values.collect::<Vec<_>>(), figure.level).map(|found| found.estimate())
        };
        let label = measured.metric.title.to_string();
        ReferenceLine { label, points: self.places(figure).into_iter().map(at).collect() }
    }

    fn stack(&self, figure: &Figure, facet: Option<usize>) -> StackPlot {
        let bars = |series: Option<usize>| StackBars {
            label: self.label(figure.series, series).to_string(),
            bars: self.places(figure).into_iter().map(|x| self.stack_bar(figure, Spot { x, series, facet })).collect(),
        };
        StackPlot {
            label: self.description(figure, facet),
            x_title: self.title(figure.x).to_string(),
            x: self.x_labels(figure),
            y_title: figure.measured.title(),
            quantity: figure.measured.metric.quantity,
            most: None,
            parts: figure.parts.iter().map(|part| part.label.clone()).collect(),
            series: self.series(figure, facet).into_iter().map(bars).collect(),
        }
    }

    fn stack_bar(&self, figure: &Figure, spot: Spot) -> StackBar {
        let of_part = |part: &crate::types::FigurePart| self.values_of(figure, spot, &part.measured, 0.5);
        let parts: Vec<_> = figure.parts.iter().map(of_part).collect();
        let mean = |values: &std::collections::BTreeMap<u64, f64>| {
            Interval::of(&values.values().copied().collect::<Vec<_>>()).map(|interval| interval.mean)
        };
        // A run that lacks the value of any part has no sum.
        let whole = |seed: &u64| parts.iter().map(|values| values.get(seed).copied()).sum::<Option<f64>>();
        let sums: Vec<f64> = parts.first().into_iter().flat_map(|values| values.keys()).filter_map(whole).collect();
        let sum: Option<Estimate> = Interval::at(&sums, figure.level).map(|interval| interval.estimate());
        StackBar { parts: parts.iter().map(mean).collect(), sum }
    }

    fn distribution(&self, figure: &Figure, facet: Option<usize>) -> DistributionPlot {
        let curve = |(number, (spot, label)): (usize, (Spot, String))| DistributionCurve {
            label,
            // Without a second axis the curve of a series has the colour that the series has in every figure.
            colour: if figure.x.is_none() { spot.series.unwrap_or(1) } else { number },
            values: self.pooled(figure, spot),
            paper: self.papers(figure, spot).collect(),
        };
        DistributionPlot {
            label: self.description(figure, facet),
            x_title: figure.measured.title(),
            quantity: figure.measured.metric.quantity,
            most: None,
            curves: self.rows(figure, facet).into_iter().enumerate().map(curve).collect(),
        }
    }

    /// Values of all runs at a point in ascending order, each with a weight. The weights of each run add up to 1, so
    /// that a run with many values does not dominate.
    fn pooled(&self, figure: &Figure, spot: Spot) -> Vec<(f64, f64)> {
        let key = figure.measured.key();
        let samples = self.runs(figure, spot).filter_map(|(_, run)| run.numbers.samples.get(&key));
        let weighed = samples.flat_map(|sample| {
            let weight = 1.0 / sample.values.len() as f64;
            sample.values.iter().map(move |value| (*value, weight))
        });
        let mut values: Vec<(f64, f64)> = weighed.collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        values
    }

    /// Points of a facet with their labels, in the order of series and positions.
    pub(crate) fn rows(&self, figure: &Figure, facet: Option<usize>) -> Vec<(Spot, String)> {
        let mut rows = Vec::new();
        for series in self.series(figure, facet) {
            for x in self.places(figure) {
                let spot = Spot { x, series, facet };
                let words = [self.label(figure.series, series), self.label(figure.x, x)];
                let label = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
                let label = if label.is_empty() { figure.measured.metric.title.to_string() } else { label };
                rows.extend(Some((spot, label)).filter(|(spot, _)| self.has(figure, *spot)));
            }
        }
        rows
    }
}
