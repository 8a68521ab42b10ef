//! Line charts: values over time, and distributions.

use super::axis::Axis;
use super::svg::{Svg, text_width};

/// One line of a chart.
pub struct ChartLine {
    /// CSS class that selects the colour: `a` or `b`.
    pub class: &'static str,
    /// Name of the line, shown on hover.
    pub tip: String,
    /// Points in order of x.
    pub points: Vec<(f64, f64)>,
    /// Whether each value holds until the next point.
    pub steps: bool,
    /// Whether the area below the line is filled.
    pub filled: bool,
}

/// A line chart.
pub struct Chart<'a> {
    /// Description for screen readers.
    pub label: &'a str,
    pub x: Axis,
    pub y: Axis,
    /// Label of the horizontal axis, without unit.
    pub x_title: &'a str,
    /// Label of the vertical axis, without unit.
    pub y_title: &'a str,
    /// Lines, the first at the back.
    pub lines: Vec<ChartLine>,
    /// Ranges of x with a shaded background, each with its hover text.
    pub shades: Vec<(f64, f64, String)>,
    /// Height in pixels.
    pub height: f64,
}

impl ChartLine {
    /// Value at `x`: for steps that of the last point up to `x`, otherwise interpolated. `None` before the first point
    /// and, for a line without steps, behind the last.
    pub fn at(&self, x: f64) -> Option<f64> {
        let after = self.points.partition_point(|p| p.0 <= x);
        let before = self.points.get(after.checked_sub(1)?)?;
        match self.points.get(after) {
            Some(next) if !self.steps => Some(before.1 + (next.1 - before.1) * (x - before.0) / (next.0 - before.0)),
            None if !self.steps && x > before.0 => None,
            _ => Some(before.1),
        }
    }
}

const TOP: f64 = 26.0;
const BOTTOM: f64 = 44.0;

pub fn titled(title: &str, unit: &str) -> String {
    if unit.is_empty() { title.to_string() } else { format!("{title} ({unit})") }
}

impl Chart<'_> {
    pub fn draw(&self, width: f64) -> String {
        let mut svg = Svg::new(width, self.height, self.label);
        let widest = self.y.ticks.iter().map(|(_, text)| text_width(text, 12.0)).fold(0.0, f64::max);
        let (left, right) = (widest + 14.0, width - 12.0);
        let (top, bottom) = (TOP, self.height - BOTTOM);
        let x = |v: f64| self.x.place(v, left, right);
        let y = |v: f64| self.y.place(v, bottom, top);
        for (from, to, tip) in &self.shades {
            let (from, to) = (x(from.max(self.x.from)), x(to.min(self.x.to)));
            // Outside of the axis the clamped ends meet or cross, and a rectangle has no negative width.
            if to > from {
                svg.rect("shade", (from, top), (to - from, bottom - top), 0.0, tip);
            }
        }
        for (value, text) in &self.y.ticks {
            svg.line("grid", (left, y(*value)), (right, y(*value)));
            svg.text("tick", (left - 7.0, y(*value) + 4.0), "end", text);
        }
        // Only every n-th tick is drawn, so that the texts do not overlap.
        let room = self.x.ticks.iter().map(|(_, text)| text_width(text, 12.0) + 14.0).fold(1.0, f64::max);
        let every = (room * self.x.ticks.len() as f64 / (right - left)).ceil().max(1.0) as usize;
        for (value, text) in self.x.ticks.iter().step_by(every) {
            svg.line("axis", (x(*value), bottom), (x(*value), bottom + 5.0));
            svg.text("tick", (x(*value), bottom + 19.0), "middle", text);
        }
        svg.line("axis", (left, bottom), (right, bottom));
        svg.text("title", (4.0, 14.0), "start", &titled(self.y_title, &self.y.unit));
        let x_title = titled(self.x_title, &self.x.unit);
        svg.text("title", (right, bottom + 37.0), "end", &x_title);
        for line in &self.lines {
            // Lines are clipped to the axes, which keeps the picture within its frame.
            let at: Vec<(f64, f64)> = line
                .points
                .iter()
                .map(|p| (x(p.0.clamp(self.x.from, self.x.to)), y(p.1.clamp(self.y.from, self.y.to))))
                .collect();
            // The filled area is closed along the horizontal axis.
            if let (true, [first, .., last]) = (line.filled, &at[..]) {
                let mut area = vec![(first.0, bottom)];
                area.extend(&at);
                area.push((last.0, bottom));
                svg.path(&format!("area {}", line.class), &area, line.steps, "");
            }
            svg.path(&format!("line {}", line.class), &at, line.steps, &line.tip);
        }
        svg.finish()
    }
}

/// Empirical distribution function of sorted values: pairs of a value and the fraction of `total` at or below it,
/// thinned to about 400 points.
pub fn ecdf(sorted: &[f64], total: usize) -> Vec<(f64, f64)> {
    if sorted.is_empty() || total == 0 {
        return Vec::new();
    }
    // More points than pixels only enlarge the page.
    let every = sorted.len().div_ceil(400);
    let mut points = vec![(sorted[0], 0.0)];
    for (i, value) in sorted.iter().enumerate() {
        if (i + 1) % every == 0 || i + 1 == sorted.len() {
            points.push((*value, (i + 1) as f64 / total as f64));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Quantity;

    #[test]
    fn distribution_ends_at_delivered_share() {
        assert_eq!(ecdf(&[1.0, 2.0], 4), [(1.0, 0.0), (1.0, 0.25), (2.0, 0.5)]);
        // Far more values than the 400 to which the curve is thinned; the start point comes on top.
        let many: Vec<f64> = (0..100_000).map(f64::from).collect();
        let points = ecdf(&many, 100_000);
        assert!(points.len() <= 402 && points.last() == Some(&(99_999.0, 1.0)));
        assert!(ecdf(&[], 5).is_empty());
    }

    #[test]
    fn line_interpolates_between_points() {
        let line = |steps| ChartLine {
            class: "a",
            tip: String::new(),
            points: vec![(1.0, 10.0), (3.0, 20.0)],
            steps,
            filled: false,
        };
        let read = |steps| [0.0, 1.0, 2.0, 3.0, 4.0].map(|x| line(steps).at(x));
        assert_eq!(read(false), [None, Some(10.0), Some(15.0), Some(20.0), None]);
        assert_eq!(read(true), [None, Some(10.0), Some(10.0), Some(20.0), Some(20.0)]);
    }

    #[test]
    fn values_outside_axes_are_clipped() {
        let chart = Chart {
            label: "x",
            x: Axis::round(Quantity::Seconds, 10.0, 5),
            y: Axis::round(Quantity::Bytes, 10.0, 5),
            x_title: "time",
            y_title: "size",
            lines: vec![ChartLine {
                class: "a",
                tip: String::new(),
                // Points before the first and behind the last value of the axes.
                points: vec![(-5.0, 0.0), (20.0, 99.0)],
                steps: false,
                filled: true,
            }],
            shades: vec![(8.0, 99.0, "up".into()), (50.0, 60.0, "never seen".into())],
            height: 200.0,
        };
        let svg = chart.draw(400.0);
        assert!(svg.contains("size (B)") && svg.contains("time (s)"));
        assert!(svg.contains("L388 26") && !svg.contains("never seen"), "{svg}");
    }
}
