//! Figures of distributions: the fraction of values at or below each value.

use super::axis::Axis;
use super::canvas::Canvas;
use super::chart::titled;
use super::drawing::{BOTTOM, Drawing, LegendEntry, TOP};
use super::plot::COLOURS;
use super::svg::text_width;
use crate::format::Quantity;

// Most points of a curve; more than pixels only enlarge the page.
const POINTS: usize = 400;
// End of the axis, as a multiple of the largest 99th percentile; beyond it lie only a few far values.
const BEHIND: f64 = 1.15;

/// Distribution of one series.
#[derive(Clone, PartialEq, Debug)]
pub struct DistributionCurve {
    /// Name in the legend.
    pub label: String,
    /// Colour index.
    pub colour: usize,
    /// Values in ascending order, each with its weight; weights are relative.
    pub values: Vec<(f64, f64)>,
    /// Published values for comparison: a value, and the fraction at or below it.
    pub paper: Vec<(f64, f64)>,
}

impl DistributionCurve {
    fn weight(&self) -> f64 {
        self.values.iter().map(|(_, weight)| weight).sum()
    }

    /// Smallest value with at least this fraction at or below it.
    fn quantile(&self, q: f64) -> Option<f64> {
        let (all, mut sum) = (self.weight(), 0.0);
        let reached = |(_, weight): &&(f64, f64)| {
            sum += weight;
            // The tolerance is for sums of many weights.
            sum >= all * q * (1.0 - 1e-9)
        };
        self.values.iter().find(reached).map(|(value, _)| *value)
    }

    /// Value and fraction of each step, thinned so that a curve of many values has about [`POINTS`].
    fn steps(&self) -> Vec<(f64, f64)> {
        let (all, mut sum, mut drawn) = (self.weight(), 0.0, 0.0);
        // By weight, so that a value that counts much is drawn at its own place; the tolerance is for sums of weights.
        let least = all / POINTS as f64 * (1.0 - 1e-9);
        let mut steps: Vec<(f64, f64)> = self.values.first().map(|(value, _)| (*value, 0.0)).into_iter().collect();
        for (place, (value, weight)) in self.values.iter().enumerate() {
            sum += weight;
            if sum - drawn >= least || place + 1 == self.values.len() {
                drawn = sum;
                steps.push((*value, sum / all));
            }
        }
        steps
    }
}

/// A figure of distributions, ready to be drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct DistributionPlot {
    /// Description for screen readers.
    pub label: String,
    /// Title of the horizontal axis, without unit.
    pub x_title: String,
    /// Kind of quantity of the horizontal axis.
    pub quantity: Quantity,
    /// End of the horizontal axis, so that several figures can share one; `None`: [`DistributionPlot::largest`].
    pub most: Option<f64>,
    /// Curves, the first at the back.
    pub curves: Vec<DistributionCurve>,
}

impl DistributionPlot {
    /// End of the horizontal axis: a little behind the largest 99th percentile and the values of papers.
    pub fn largest(&self) -> f64 {
        let ours = self.curves.iter().filter_map(|curve| curve.quantile(0.99));
        let theirs = self.curves.iter().flat_map(|curve| &curve.paper).map(|(value, _)| *value);
        BEHIND * ours.chain(theirs).filter(|value| value.is_finite()).fold(0.0, f64::max)
    }
}

impl Drawing for DistributionPlot {
    fn label(&self) -> &str {
        &self.label
    }
    fn entries(&self) -> Vec<LegendEntry<'_>> {
        self.curves.iter().map(|curve| (curve.label.as_str(), curve.colour)).collect()
    }
    fn paint(&self, on: &mut dyn Canvas, width: f64, height: f64) {
        let x_axis = Axis::exact(self.quantity, 0.0, self.most.unwrap_or_else(|| self.largest()), 6);
        let y_axis = Axis::round(Quantity::Share, 1.0, 5);
        let widest = y_axis.ticks.iter().map(|(_, text)| text_width(text, 12.0)).fold(0.0, f64::max);
        let (left, right) = (widest + 14.0, width - 12.0);
        let (top, bottom) = (TOP, height - BOTTOM);
        let x = |value: f64| x_axis.place(value.clamp(x_axis.from, x_axis.to), left, right);
        let y = |share: f64| y_axis.place(share, bottom, top);
        for (value, text) in &y_axis.ticks {
            on.line("grid", (left, y(*value)), (right, y(*value)));
            on.text("tick", (left - 7.0, y(*value) + 4.0), "end", text);
        }
        let room = x_axis.ticks.iter().map(|(_, text)| text_width(text, 12.0) + 14.0).fold(1.0, f64::max);
        let every = (room * x_axis.ticks.len() as f64 / (right - left)).ceil().max(1.0) as usize;
        for (value, text) in x_axis.ticks.iter().step_by(every) {
            on.line("axis", (x(*value), bottom), (x(*value), bottom + 5.0));
            on.text("tick", (x(*value), bottom + 19.0), "middle", text);
        }
        on.line("axis", (left, bottom), (right, bottom));
        on.text("title", (4.0, 14.0), "start", &titled("fraction of values", &y_axis.unit));
        on.text("title", (right, bottom + 37.0), "end", &titled(&self.x_title, &x_axis.unit));
        for curve in &self.curves {
            let class = format!("s{}", curve.colour % COLOURS);
            // A curve that goes on behind the axis ends at its edge, below 1.
            let mut points: Vec<(f64, f64)> =
                curve.steps().into_iter().take_while(|(value, _)| *value <= x_axis.to).collect();
            if let Some((_, share)) = points.last().filter(|(_, share)| *share < 1.0) {
                points.push((x_axis.to, *share));
            }
            let at: Vec<(f64, f64)> = points.iter().map(|(value, share)| (x(*value), y(*share))).collect();
            let text = |q| curve.quantile(q).map_or("-".into(), |value| self.quantity.text(value));
            let tip = format!("{}: median {}, 90 % {}, 99 % {}", curve.label, text(0.5), text(0.9), text(0.99));
            on.path(&format!("line {class}"), &at, true, &tip);
            for (value, share) in &curve.paper {
                let what = Quantity::Share.text(*share);
                let tip = format!("{} in the paper: {what} at most {}", curve.label, self.quantity.text(*value));
                on.circle(&format!("paper {class}"), (x(*value), y(*share)), 5.0, &tip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(label: &str, values: Vec<f64>) -> DistributionCurve {
        let values = values.into_iter().map(|value| (value, 0.5)).collect();
        DistributionCurve { label: label.into(), colour: 1, values, paper: vec![(0.015, 0.66)] }
    }
    fn plot() -> DistributionPlot {
        DistributionPlot {
            label: "round trips".into(),
            x_title: "round trip".into(),
            quantity: Quantity::Seconds,
            most: None,
            curves: vec![curve("<ours>", vec![0.001, 0.002, 0.003, 0.004]), curve("none", Vec::new())],
        }
    }

    #[test]
    fn steps_end_at_one() {
        let ours = &plot().curves[0];
        assert_eq!(ours.steps(), [(0.001, 0.0), (0.001, 0.25), (0.002, 0.5), (0.003, 0.75), (0.004, 1.0)]);
        assert_eq!([0.25, 0.5, 0.51, 1.0].map(|q| ours.quantile(q).unwrap()), [0.001, 0.002, 0.003, 0.004]);
        let many = curve("many", (0..100_000).map(f64::from).collect()).steps();
        assert!(many.len() <= POINTS + 2 && many.last() == Some(&(99_999.0, 1.0)));
        let most = curve("as many as points", (0..POINTS as u32).map(f64::from).collect()).steps();
        assert_eq!(most.len(), POINTS + 1, "all of them");
        let equal = curve("equal", vec![1.0, 2.0, 2.0, 2.0]);
        assert_eq!(equal.steps()[2..], [(2.0, 0.5), (2.0, 0.75), (2.0, 1.0)], "one rise at one value");
        assert_eq!((plot().curves[1].steps(), plot().curves[1].quantile(0.5)), (vec![], None));
    }

    #[test]
    fn weights_count_runs_alike() {
        let values = vec![(1.0, 0.5), (2.0, 0.25), (3.0, 0.25)];
        let curve = DistributionCurve { values, ..curve("two runs", Vec::new()) };
        assert_eq!(curve.steps()[1], (1.0, 0.5));
        // With one value from one run and 2,000 from another, half of the curve rises at the one value, and not at the
        // next point drawn.
        let mut values: Vec<(f64, f64)> = (0..2000).map(|n| (f64::from(n), 1.0 / 2000.0)).collect();
        values.insert(1001, (1000.5, 1.0));
        let steps = DistributionCurve { values, ..curve }.steps();
        assert!(steps.iter().any(|(value, share)| *value == 1000.5 && (share - 0.75).abs() < 1e-3), "{steps:?}");
        assert!(steps.len() <= POINTS + 2);
    }

    #[test]
    fn far_values_do_not_stretch_axis() {
        let mut far = plot();
        far.curves.iter_mut().for_each(|curve| curve.paper.clear());
        far.curves[0].values = (0..1000).map(|n| (if n < 995 { 0.01 } else { 50.0 }, 1.0)).collect();
        assert!((far.largest() - 0.0115).abs() < 1e-9);
        let svg = far.draw(500.0, 300.0);
        assert!(svg.contains("median 10 ms, 90 % 10 ms, 99 % 10 ms") && svg.contains("H488"), "{svg}");
    }

    #[test]
    fn paper_and_legend_are_drawn() {
        let svg = plot().file("Figure 2", 640.0, 300.0);
        assert!(svg.contains("&lt;ours&gt; in the paper: 66 % at most 15 ms"), "{svg}");
        assert!(svg.contains("fraction of values (%)") && svg.contains("round trip (ms)"));
        assert!((plot().largest() - 0.01725).abs() < 1e-9);
        let pdf = plot().pdf("Figure 2", 640.0, 300.0);
        assert_eq!(pdf.matches(" Tj ET").count(), svg.matches("<text").count());
    }
}
