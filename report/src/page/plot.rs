//! Figures of studies: means with confidence intervals over the values of one axis, with one line or one row of bars
//! for each series.
//!
//! Values of the horizontal axis are labels at equal distances, as papers draw them.

use super::axis::Axis;
use super::canvas::Canvas;
use super::drawing::{Drawing, LabelFrame, LegendEntry};
use crate::format::Quantity;
use std::ops::RangeInclusive;

/// Number of distinct series colours; further series reuse them.
pub const COLOURS: usize = 8;

/// Series colours for a white background.
pub(super) const INKS: [&str; COLOURS] =
    ["#4b5563", "#1f6fd6", "#d9730d", "#1a7f4b", "#a21caf", "#b45309", "#0e7490", "#be123c"];

/// A mean with its confidence interval; no interval if there is only one value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half-width of the confidence interval.
    pub half: Option<f64>,
}

impl Estimate {
    /// Formats mean and interval with the unit: `0.35 ± 0.02`, `26.3 ± 1.1 %`.
    pub fn text(&self, quantity: Quantity) -> String {
        let half = self.half.map_or(String::new(), |half| format!(" ± {}", quantity.text(half)));
        format!("{}{half}", quantity.text(self.mean))
    }
}

/// One series of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Name in the legend.
    pub label: String,
    /// Colour index; equal numbers give equal colours in every plot.
    pub colour: usize,
    /// Value for each position of the horizontal axis; absent where it is unknown.
    pub points: Vec<Option<Estimate>>,
    /// Values from a paper for the same positions; absent where the paper has none.
    pub paper: Vec<Option<f64>>,
}

/// Drawing style of the series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlotShape {
    /// Points joined by lines.
    Lines,
    /// Bars side by side.
    Bars,
}

/// One figure, ready to be drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// Description for screen readers.
    pub label: String,
    /// Title of the horizontal axis.
    pub x_title: String,
    /// Labels of the horizontal axis, from the left.
    pub x: Vec<String>,
    /// Title of the vertical axis, without unit.
    pub y_title: String,
    /// Kind of quantity of the vertical axis.
    pub quantity: Quantity,
    /// Value that the vertical axis must reach, so that several figures can share one axis; by default the largest of
    /// the figure.
    pub most: Option<f64>,
    /// Largest value that the quantity can have, such as 1 for a delivery ratio; infinite without such a limit.
    pub limit: f64,
    /// Series, the first at the back.
    pub series: Vec<Series>,
    /// Drawing style of the series.
    pub shape: PlotShape,
    /// Line across all series.
    pub reference: Option<ReferenceLine>,
}

/// A line across all series, such as a limit, with a value for each position of the horizontal axis.
#[derive(Clone, PartialEq, Debug)]
pub struct ReferenceLine {
    /// Name beside the legend.
    pub label: String,
    /// Values by position; `None` where nothing was measured.
    pub points: Vec<Option<Estimate>>,
}

impl Plot {
    /// Largest upper end of an interval, or value of the paper. An interval counts for at most a quarter of its mean,
    /// so that a wide one does not flatten the bars, and never beyond the limit of the quantity.
    pub fn largest(&self) -> f64 {
        let end = |e: &Estimate| (e.mean + e.half.unwrap_or(0.0).min(e.mean.abs() / 4.0)).min(self.limit.max(e.mean));
        let ours = self.series.iter().flat_map(|s| &s.points).flatten().map(end);
        let theirs = self.series.iter().flat_map(|s| &s.paper).flatten().copied();
        let reference = self.reference.iter().flat_map(|line| &line.points).flatten().map(end);
        ours.chain(theirs).chain(reference).filter(|v| v.is_finite()).fold(0.0, f64::max)
    }
}

impl Drawing for Plot {
    fn label(&self) -> &str {
        &self.label
    }
    fn entries(&self) -> Vec<LegendEntry<'_>> {
        self.series.iter().map(|series| (series.label.as_str(), series.colour)).collect()
    }
    fn note(&self) -> String {
        self.reference.as_ref().map_or(String::new(), |line| format!("dashed: {}", line.label))
    }
    fn paint(&self, on: &mut dyn Canvas, width: f64, height: f64) {
        let y_axis = Axis::round(self.quantity, self.most.unwrap_or_else(|| self.largest()), 4);
        let frame = LabelFrame::paint(on, (width, height, 0.0), &self.x, &y_axis, (&self.x_title, &self.y_title));
        let y = |value: f64| frame.y(&y_axis, value);
        if let Some(line) = &self.reference {
            self.dashed(on, line, &frame, &y);
        }
        for (number, series) in self.series.iter().enumerate() {
            let middle = |place: usize| frame.middle(place);
            self.one(on, number, series, (frame.room, frame.bottom), &middle, (&y, y_axis.from..=y_axis.to));
        }
    }
}

impl Plot {
    /// Draws each value over the whole width of its position.
    fn dashed(&self, on: &mut dyn Canvas, line: &ReferenceLine, frame: &LabelFrame, y: &dyn Fn(f64) -> f64) {
        let half = frame.room / 2.0;
        let ends = |(place, estimate): (usize, &Option<Estimate>)| {
            let at = y(estimate.filter(|e| e.mean.is_finite())?.mean);
            Some([(frame.middle(place) - half, at), (frame.middle(place) + half, at)])
        };
        let points: Vec<(f64, f64)> = line.points.iter().enumerate().filter_map(ends).flatten().collect();
        let known: Vec<String> = line.points.iter().flatten().map(|e| e.text(self.quantity)).collect();
        on.path("reference", &points, false, &format!("{}: {}", line.label, known.join(", ")));
    }

    fn one(
        &self,
        on: &mut dyn Canvas,
        number: usize,
        series: &Series,
        (room, bottom): (f64, f64),
        middle: &dyn Fn(usize) -> f64,
        (y, shown): (&dyn Fn(f64) -> f64, RangeInclusive<f64>),
    ) {
        let class = format!("s{}", series.colour % COLOURS);
        let wide = room * 0.8 / self.series.len().max(1) as f64;
        // Bars stand side by side. Points of lines are shifted slightly, so that their intervals
        // can be told apart.
        let offset = (number as f64 + 0.5 - self.series.len() as f64 / 2.0)
            * if self.shape == PlotShape::Bars { wide } else { (room * 0.03).min(4.0) };
        let mut line = Vec::new();
        for (place, estimate) in series.points.iter().enumerate() {
            let Some(estimate) = estimate.filter(|e| e.mean.is_finite()) else { continue };
            let x = middle(place) + offset;
            let at = (x, y(estimate.mean));
            let what = self.x.get(place).map_or("", String::as_str);
            let tip = format!("{}, {what}: {}", series.label, estimate.text(self.quantity));
            if self.shape == PlotShape::Bars {
                on.rect(&format!("bar {class}"), (x - wide * 0.45, at.1), (wide * 0.9, bottom - at.1), 1.5, &tip);
            } else {
                line.push(at);
            }
            if let Some(half) = estimate.half {
                // Student's interval knows nothing of limits; no value lies beyond them.
                let ends = [estimate.mean - half, (estimate.mean + half).min(self.limit.max(estimate.mean))];
                let whisker = if self.shape == PlotShape::Bars { "bound".into() } else { format!("whisker {class}") };
                on.line(&whisker, (x, y(ends[0])), (x, y(ends[1])));
                // An interval that extends beyond the axes gets no end mark.
                for end in ends.into_iter().filter(|end| shown.contains(end)) {
                    on.line(&whisker, (x - 3.0, y(end)), (x + 3.0, y(end)));
                }
            }
            if self.shape == PlotShape::Lines {
                on.circle(&format!("mark {class}"), at, 3.5, &tip);
            }
        }
        on.path(&format!("line {class}"), &line, false, &series.label);
        // Drawn last, so that our own points do not hide the paper's.
        for (place, value) in series.paper.iter().enumerate() {
            let Some(value) = value.filter(|v| v.is_finite()) else { continue };
            let tip = format!("{} in the paper: {}", series.label, self.quantity.text(value));
            on.circle(&format!("paper {class}"), (middle(place) + offset, y(value)), 5.0, &tip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(shape: PlotShape) -> Plot {
        let estimate = |mean, half| Some(Estimate { mean, half });
        let series = |label: &str, colour, points: Vec<Option<Estimate>>| Series {
            label: label.into(),
            colour,
            points,
            paper: vec![None, Some(0.9)],
        };
        Plot {
            label: "ratio".into(),
            x_title: "load".into(),
            x: vec!["low".into(), "<high>".into()],
            y_title: "delivery ratio".into(),
            quantity: Quantity::Ratio,
            most: None,
            limit: f64::INFINITY,
            series: vec![
                series("none", 0, vec![estimate(0.5, Some(0.1)), estimate(0.25, None)]),
                series("ccc & co", 9, vec![None, estimate(f64::NAN, None)]),
            ],
            shape,
            reference: None,
        }
    }

    #[test]
    fn reference_is_dashed_across_positions() {
        let points = vec![None, Some(Estimate { mean: 2.0, half: None })];
        let reference = Some(ReferenceLine { label: "plain TCP".into(), points });
        let plot = Plot { reference, ..plot(PlotShape::Bars) };
        assert_eq!((plot.largest(), plot.note()), (2.0, "dashed: plain TCP".into()));
        let (svg, pdf) = (plot.file("x", 640.0, 300.0), plot.pdf("x", 640.0, 300.0));
        assert_eq!((svg.matches("class=\"reference\"").count(), svg.matches("plain TCP: 2<").count()), (1, 1));
        assert!(svg.contains(">dashed: plain TCP<") && pdf.contains("[4.5 3] 0 d"), "{svg}");
    }

    #[test]
    fn plot_draws_only_present_values() {
        for shape in [PlotShape::Lines, PlotShape::Bars] {
            let svg = plot(shape).draw(400.0, 240.0);
            let count = |what: &str| svg.matches(what).count();
            assert!(svg.contains("none, low: 0.5 ± 0.1") && svg.contains("none, &lt;high&gt;: 0.25<"), "{svg}");
            assert_eq!(count("in the paper: 0.9"), 2);
            assert_eq!(count("ccc &amp; co, "), 0, "neither an absent value nor NaN");
            assert_eq!((count("<rect"), count("mark s0")), if shape == PlotShape::Bars { (2, 0) } else { (0, 2) });
        }
    }

    #[test]
    fn clipped_interval_has_no_end_mark() {
        let ends = |half| {
            let mut plot = plot(PlotShape::Bars);
            plot.series.truncate(1);
            plot.series[0].points = vec![Some(Estimate { mean: 0.5, half: Some(half) })];
            // One line for the interval, and one for each end mark.
            plot.draw(400.0, 240.0).matches("class=\"bound\"").count()
        };
        assert_eq!([ends(0.1), ends(0.6)], [3, 1]);
    }

    #[test]
    fn the_axis_holds_intervals_and_paper() {
        assert_eq!(plot(PlotShape::Lines).largest(), 0.9);
        let mut wide = plot(PlotShape::Bars);
        wide.series[0].points = vec![Some(Estimate { mean: 2.0, half: Some(100.0) })];
        assert_eq!(wide.largest(), 2.5, "the interval goes on beyond the picture");
        let empty = Plot { series: Vec::new(), x: Vec::new(), ..plot(PlotShape::Bars) };
        assert!(empty.draw(100.0, 100.0).ends_with("</svg>") && empty.largest() == 0.0);
    }

    #[test]
    fn intervals_of_ratios_end_at_their_limit() {
        let mut plot = Plot { limit: 1.0, ..plot(PlotShape::Bars) };
        plot.series.truncate(1);
        plot.series[0].points = vec![Some(Estimate { mean: 0.95, half: Some(0.2) })];
        assert_eq!(plot.largest(), 1.0);
        // The axis ends at 1, and so does the interval, with a mark.
        let svg = plot.draw(400.0, 240.0);
        assert_eq!((svg.contains(">1.0<"), svg.contains(">1.5<")), (true, false), "{svg}");
        assert_eq!(svg.matches("class=\"bound\"").count(), 3);
    }

    #[test]
    fn standalone_svg_has_style_and_legend() {
        let file = plot(PlotShape::Lines).file("Figure <3>", 640.0, 300.0);
        assert_eq!((file.matches("<svg").count(), file.matches("</svg>").count()), (1, 1));
        assert!(file.starts_with("<svg xmlns=") && file.contains("<style>") && file.contains("Figure &lt;3&gt;"));
        assert!(file.contains("ccc &amp; co") && file.contains("mark s1"), "colour 9 wraps around to colour 1");
    }

    #[test]
    fn pdf_and_svg_show_same_shapes() {
        for shape in [PlotShape::Lines, PlotShape::Bars] {
            let (svg, pdf) =
                (plot(shape).file("Figure <3>", 640.0, 300.0), plot(shape).pdf("Figure <3>", 640.0, 300.0));
            assert_eq!(pdf.matches(" Tj ET").count(), svg.matches("<text").count());
            assert_eq!(pdf.matches(" re B").count(), svg.matches("<rect").count() - 1, "but for the white of the page");
            let circles = pdf.matches(" c b\n").count() + pdf.matches(" c s\n").count();
            assert_eq!(circles, svg.matches("<circle").count());
            assert!(pdf.contains("(ccc & co) Tj") && pdf.starts_with("%PDF-1.4"));
            assert_eq!(pdf, plot(shape).pdf("Figure <3>", 640.0, 300.0), "the same picture is the same bytes");
        }
    }
}
