//! Figures of parts that add up: bars of stacked parts over the values of one axis.

use super::axis::Axis;
use super::canvas::Canvas;
use super::drawing::{Drawing, LabelFrame, LegendEntry};
use super::plot::{COLOURS, Estimate};
use super::svg::text_width;
use crate::format::Quantity;

/// Bars of one series.
#[derive(Clone, PartialEq, Debug)]
pub struct StackBars {
    /// Name below its bars; empty if there is one series.
    pub label: String,
    /// Bars by position of the horizontal axis.
    pub bars: Vec<StackBar>,
}

/// One bar of stacked parts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StackBar {
    /// Value of each part from the bottom; `None` where it was not measured.
    pub parts: Vec<Option<f64>>,
    /// Sum of the parts with its confidence interval; absent unless every part has a value.
    pub sum: Option<Estimate>,
}

impl StackBar {
    /// Numbers and values of the parts that have a height.
    fn drawn(&self) -> impl Iterator<Item = (usize, f64)> {
        let known = self.parts.iter().enumerate().filter_map(|(number, value)| Some((number, (*value)?)));
        known.filter(|(_, value)| value.is_finite() && *value > 0.0)
    }
}

/// A figure of stacked parts, ready to be drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct StackPlot {
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
    /// Names of the parts, from the bottom.
    pub parts: Vec<String>,
    /// Series, side by side at each position.
    pub series: Vec<StackBars>,
}

impl StackPlot {
    /// Height of the highest bar with its interval, which counts for at most a quarter of the mean.
    pub fn largest(&self) -> f64 {
        let height = |bar: &StackBar| {
            let parts: f64 = bar.drawn().map(|(_, value)| value).sum();
            bar.sum.map_or(parts, |sum| parts.max(sum.mean + sum.half.unwrap_or(0.0).min(sum.mean.abs() / 4.0)))
        };
        self.series.iter().flat_map(|series| &series.bars).map(height).fold(0.0, f64::max)
    }

    /// Whether the names of series are too long to stand below their bars; numbers stand there instead.
    fn is_numbered(&self, room: f64) -> bool {
        let widest = self.series.iter().map(|series| text_width(&series.label, 11.0)).fold(0.0, f64::max);
        widest + 4.0 > room * 0.84 / self.series.len().max(1) as f64
    }
}

impl Drawing for StackPlot {
    fn label(&self) -> &str {
        &self.label
    }
    fn entries(&self) -> Vec<LegendEntry<'_>> {
        self.parts.iter().enumerate().map(|(place, label)| (label.as_str(), place + 1)).collect()
    }
    fn note(&self) -> String {
        if self.series.len() < 2 {
            return String::new();
        }
        let numbered = self.series.iter().enumerate().map(|(place, series)| format!("{} {}", place + 1, series.label));
        format!("bars from the left: {}", numbered.collect::<Vec<_>>().join(", "))
    }
    fn paint(&self, on: &mut dyn Canvas, width: f64, height: f64) {
        let y_axis = Axis::round(self.quantity, self.most.unwrap_or_else(|| self.largest()), 4);
        // Names of series need a line below the bars.
        let below = if self.series.len() > 1 { 17.0 } else { 0.0 };
        let titles = (self.x_title.as_str(), self.y_title.as_str());
        let frame = LabelFrame::paint(on, (width, height, below), &self.x, &y_axis, titles);
        let numbered = self.is_numbered(frame.room);
        let wide = frame.room * 0.84 / self.series.len().max(1) as f64;
        for (number, series) in self.series.iter().enumerate() {
            let offset = (number as f64 + 0.5 - self.series.len() as f64 / 2.0) * wide;
            for (place, bar) in series.bars.iter().enumerate() {
                let x = frame.middle(place) + offset;
                self.bar(on, bar, (x, wide * 0.86), (&frame, &y_axis), (&series.label, place));
                if below > 0.0 {
                    let text = if numbered { (number + 1).to_string() } else { series.label.clone() };
                    on.text("tick", (x, frame.bottom + 16.0), "middle", &text);
                }
            }
        }
    }
}

impl StackPlot {
    fn bar(
        &self,
        on: &mut dyn Canvas,
        bar: &StackBar,
        (x, wide): (f64, f64),
        (frame, axis): (&LabelFrame, &Axis),
        (series, place): (&str, usize),
    ) {
        let mut from = 0.0;
        let what = [series, self.x.get(place).map_or("", String::as_str)].map(String::from);
        let what = what.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
        for (number, value) in bar.drawn() {
            let (top, bottom) = (frame.y(axis, from + value), frame.y(axis, from));
            let part = self.parts.get(number).map_or("", String::as_str);
            let tip = format!("{what}, {part}: {}", self.quantity.text(value));
            let class = format!("part s{}", (number + 1) % COLOURS);
            on.rect(&class, (x - wide / 2.0, top), (wide, bottom - top), 0.0, &tip);
            from += value;
        }
        let Some((mean, half)) = bar.sum.and_then(|sum| Some((sum.mean, sum.half?))) else { return };
        on.line("bound", (x, frame.y(axis, mean - half)), (x, frame.y(axis, mean + half)));
        for end in [mean - half, mean + half].into_iter().filter(|end| (axis.from..=axis.to).contains(end)) {
            on.line("bound", (x - 3.0, frame.y(axis, end)), (x + 3.0, frame.y(axis, end)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> StackPlot {
        let bar = |parts: [Option<f64>; 2], half| StackBar {
            parts: parts.to_vec(),
            sum: parts[0].zip(parts[1]).map(|(a, b)| Estimate { mean: a + b, half }),
        };
        StackPlot {
            label: "memory".into(),
            x_title: "size".into(),
            x: vec!["1 kB".into(), "1 MB".into()],
            y_title: "peak memory".into(),
            quantity: Quantity::Bytes,
            most: None,
            parts: vec!["anonymous".into(), "shared".into()],
            series: vec![
                StackBars {
                    label: "ours".into(),
                    bars: vec![bar([Some(1e6), Some(2e6)], Some(1e5)), bar([Some(4e6), None], None)],
                },
                StackBars { label: "<toy>".into(), bars: vec![bar([None, None], None), StackBar::default()] },
            ],
        }
    }

    #[test]
    fn parts_stand_on_each_other() {
        let svg = plot().draw(600.0, 300.0);
        let rect = |what: &str| {
            let part = svg.split("<rect ").find(|part| part.contains(what)).unwrap_or_else(|| panic!("{what}: {svg}"));
            let number = |key: &str| part.split(&format!(" {key}=\"")).nth(1).unwrap().split('"').next().unwrap();
            ["x", "y", "height"].map(|key| number(key).parse::<f64>().unwrap())
        };
        let [below, above] = ["ours, 1 kB, anonymous: 1 MB", "ours, 1 kB, shared: 2 MB"].map(rect);
        assert_eq!(below[0], above[0]);
        assert!((above[1] + above[2] - below[1]).abs() < 0.11 && (above[2] / below[2] - 2.0).abs() < 0.01);
        assert!(svg.contains("ours, 1 MB, anonymous: 4 MB") && svg.matches("part s").count() == 3);
        assert_eq!(svg.matches("\"bound\"").count(), 3, "one interval with its ends");
        assert_eq!(plot().largest(), 4e6);
        let mut negative = plot();
        negative.series[0].bars[1] = StackBar { parts: vec![Some(5e6), Some(-2e6)], sum: None };
        assert_eq!(negative.largest(), 5e6, "a part below zero is not drawn, and lowers no other");
    }

    #[test]
    fn series_are_named_below_bars() {
        assert!(plot().draw(600.0, 300.0).contains(">&lt;toy&gt;<"));
        let narrow = plot().draw(120.0, 300.0);
        assert!(!narrow.contains(">&lt;toy&gt;<") && narrow.contains(">2<"), "{narrow}");
        assert_eq!(plot().note(), "bars from the left: 1 ours, 2 <toy>");
        let mut one = plot();
        one.series.truncate(1);
        assert_eq!(one.note(), "");
        assert!(!one.draw(600.0, 300.0).contains(">ours<"));
    }

    #[test]
    fn stack_is_drawn_as_file_and_pdf() {
        let (file, pdf) = (plot().file("Figure 4", 640.0, 300.0), plot().pdf("Figure 4", 640.0, 300.0));
        assert!(file.contains(">anonymous<") && file.contains("mark s2"));
        assert_eq!(pdf.matches(" re B").count(), file.matches("<rect").count() - 1, "but for the page");
        let empty = StackPlot { series: Vec::new(), x: Vec::new(), ..plot() };
        assert!(empty.draw(100.0, 100.0).ends_with("</svg>") && empty.largest() == 0.0);
    }
}
