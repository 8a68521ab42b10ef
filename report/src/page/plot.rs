//! Figures of studies: means with confidence intervals over the values of one axis, with one line or one row of bars
//! for each series.
//!
//! Values of the horizontal axis are labels at equal distances, as papers draw them.

use super::axis::Axis;
use super::canvas::Canvas;
use super::chart::titled;
use super::pdf::Pdf;
use super::svg::{Svg, escape, text_width};
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
    /// Series, the first at the back.
    pub series: Vec<Series>,
    /// Drawing style of the series.
    pub shape: PlotShape,
}

const TOP: f64 = 26.0;
const BOTTOM: f64 = 44.0;

impl Plot {
    /// Largest value with its interval, those of the paper included. At most a quarter of the mean counts of an
    /// interval, so that a wide one does not flatten the bars.
    pub fn largest(&self) -> f64 {
        let end = |e: &Estimate| e.mean + e.half.unwrap_or(0.0).min(e.mean.abs() / 4.0);
        let ours = self.series.iter().flat_map(|s| &s.points).flatten().map(end);
        let theirs = self.series.iter().flat_map(|s| &s.paper).flatten().copied();
        ours.chain(theirs).filter(|v| v.is_finite()).fold(0.0, f64::max)
    }

    /// Draws the figure for a page that has the report's style sheet.
    pub fn draw(&self, width: f64, height: f64) -> String {
        let mut svg = Svg::new(width, height, &self.label);
        self.paint(&mut svg, width, height);
        svg.finish()
    }

    fn paint(&self, on: &mut dyn Canvas, width: f64, height: f64) {
        let y_axis = Axis::round(self.quantity, self.most.unwrap_or_else(|| self.largest()), 4);
        let widest = y_axis.ticks.iter().map(|(_, text)| text_width(text, 12.0)).fold(0.0, f64::max);
        let (left, right) = (widest + 14.0, width - 12.0);
        let (top, bottom) = (TOP, height - BOTTOM);
        let y = |v: f64| y_axis.place(v.clamp(y_axis.from, y_axis.to), bottom, top);
        for (value, text) in &y_axis.ticks {
            on.line("grid", (left, y(*value)), (right, y(*value)));
            on.text("tick", (left - 7.0, y(*value) + 4.0), "end", text);
        }
        on.line("axis", (left, bottom), (right, bottom));
        let room = (right - left) / self.x.len().max(1) as f64;
        let middle = |place: usize| left + room * (place as f64 + 0.5);
        let longest = self.x.iter().map(|text| text_width(text, 12.0) + 8.0).fold(1.0, f64::max);
        let every = (longest / room).ceil().max(1.0) as usize;
        for (place, text) in self.x.iter().enumerate().step_by(every) {
            on.text("tick", (middle(place), bottom + 19.0), "middle", text);
        }
        on.text("title", (4.0, 14.0), "start", &titled(&self.y_title, &y_axis.unit));
        on.text("title", (right, bottom + 37.0), "end", &self.x_title);
        for (number, series) in self.series.iter().enumerate() {
            self.one(on, number, series, (room, bottom), &middle, (&y, y_axis.from..=y_axis.to));
        }
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
                let ends = [estimate.mean - half, estimate.mean + half];
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

    /// Renders the legend as HTML.
    pub fn legend(&self) -> String {
        let key = |series: &Series| {
            let class = series.colour % COLOURS;
            format!("<span class=\"key s{class}\">{}</span>", escape(&series.label))
        };
        format!("<div class=\"legend\">{}</div>", self.series.iter().map(key).collect::<String>())
    }

    /// Height of title and legend in a standalone figure, in pixels.
    fn above(&self) -> f64 {
        26.0 + 18.0 * self.series.len().div_ceil(4) as f64
    }

    fn head(&self, on: &mut dyn Canvas, title: &str, width: f64) {
        const COLUMNS: usize = 4;
        on.text("name", (4.0, 18.0), "start", title);
        for (place, series) in self.series.iter().enumerate() {
            let at = (10.0 + (place % COLUMNS) as f64 * width / COLUMNS as f64, 38.0 + 18.0 * (place / COLUMNS) as f64);
            on.circle(&format!("mark s{}", series.colour % COLOURS), (at.0, at.1 - 4.0), 4.0, "");
            on.text("label", (at.0 + 9.0, at.1), "start", &series.label);
        }
    }

    /// Renders the standalone figure as a PDF document of one page.
    pub fn pdf(&self, title: &str, width: f64, height: f64) -> String {
        let above = self.above();
        let mut page = Pdf::new(width, height + above);
        self.head(&mut page, title, width);
        page.down = above;
        self.paint(&mut page, width, height);
        page.finish(title)
    }

    /// Renders a standalone SVG file, with style, title and legend.
    pub fn file(&self, title: &str, width: f64, height: f64) -> String {
        // The SVG element of the plot is unwrapped and placed below title and legend.
        let drawn = self.draw(width, height);
        let inside = drawn.split_once('>').map_or("", |(_, rest)| rest);
        let above = self.above();
        let mut head = Svg::new(width, above, "");
        self.head(&mut head, title, width);
        let head = head.finish();
        let head = head.split_once('>').map_or("", |(_, rest)| rest);
        let (head, inside) = (head.trim_end_matches("</svg>"), inside.trim_end_matches("</svg>"));
        let label = escape(&self.label);
        let tall = height + above;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{tall}\" \
             viewBox=\"0 0 {width} {tall}\" role=\"img\" aria-label=\"{label}\"><style>{}</style>\
             <rect class=\"page\" width=\"100%\" height=\"100%\"/>{head}<g transform=\"translate(0 {above})\">{inside}</g></svg>\n",
            style()
        )
    }
}

/// Style sheet of a standalone file.
fn style() -> String {
    let mut out = String::from(
        "text{font:12px system-ui,sans-serif;fill:#1c2430}.page{fill:#fff}.name{font-size:14px;font-weight:600}\
         .tick,.title{fill:#5a6675}.grid{stroke:#e8ebef}.axis{stroke:#5a6675}.bound{stroke:#1c2430;stroke-width:1.3}.line{fill:none;stroke-width:2}\
         .paper{fill:none;stroke-width:1.6}",
    );
    for (number, ink) in INKS.iter().enumerate() {
        out.push_str(&format!(".s{number}{{stroke:{ink}}}.mark.s{number},.bar.s{number}{{fill:{ink}}}"));
    }
    out
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
            series: vec![
                series("none", 0, vec![estimate(0.5, Some(0.1)), estimate(0.25, None)]),
                series("ccc & co", 9, vec![None, estimate(f64::NAN, None)]),
            ],
            shape,
        }
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
