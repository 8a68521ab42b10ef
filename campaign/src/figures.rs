//! Figures of a campaign's results.

use crate::results::{Results, Spot};
use crate::types::Figure;
use farlink_report::plot::{Plot, Series};

impl Results<'_> {
    pub(crate) fn paper(&self, figure: &Figure, spot: Spot) -> Option<f64> {
        let of = |paper: &&crate::types::Paper| {
            paper.series == spot.series.unwrap_or(0) && paper.facet.is_none_or(|facet| Some(facet) == spot.facet)
        };
        figure.paper.iter().find(of)?.values.get(spot.x).copied()
    }

    /// Plots of a figure, one for each value of its facet with the value's label; all share one vertical axis.
    pub fn plots(&self, figure: &Figure) -> Vec<(String, Plot)> {
        let facets = self.kept(figure.facet);
        let mut plots: Vec<(String, Plot)> = facets
            .into_iter()
            .map(|facet| (self.label(figure.facet, facet).to_string(), self.plot(figure, facet)))
            .collect();
        let most = plots.iter().map(|(_, plot)| plot.largest()).fold(0.0, f64::max);
        // A common axis makes the facets comparable at a glance.
        plots.iter_mut().for_each(|(_, plot)| plot.most = Some(most));
        plots
    }

    fn plot(&self, figure: &Figure, facet: Option<usize>) -> Plot {
        let xs = self.places(figure);
        let one = |series: Option<usize>| {
            let spot = |x: &usize| Spot { x: *x, series, facet };
            let label = self.label(figure.series, series);
            Series {
                label: if label.is_empty() { figure.metric.title.to_string() } else { label.to_string() },
                // Colour 0 is grey, which suits a reference series but not a single one.
                colour: series.unwrap_or(1),
                points: xs.iter().map(|x| self.interval(figure, spot(x)).map(|found| found.estimate())).collect(),
                paper: xs.iter().map(|x| self.paper(figure, spot(x))).collect(),
            }
        };
        let title = [figure.title.as_str(), self.label(figure.facet, facet)];
        Plot {
            label: title.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", "),
            x_title: self.title(Some(figure.x)).to_string(),
            x: xs.iter().map(|x| self.label(Some(figure.x), Some(*x)).to_string()).collect(),
            y_title: figure.metric.title.to_string(),
            quantity: figure.metric.quantity,
            most: None,
            series: self.series(figure, facet).into_iter().map(one).collect(),
            shape: figure.shape,
        }
    }
}
