//! What figures are drawn on: an SVG picture, or a page of PDF.

/// A place to draw on, with `y` downwards. A class says what something is; the place knows how that looks.
pub trait Canvas {
    /// A line.
    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64));
    /// A rectangle with round corners; `tip` is shown when pointed at, where something can be.
    fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), radius: f64, tip: &str);
    /// A text; `anchor` is start, middle or end.
    fn text(&mut self, class: &str, at: (f64, f64), anchor: &str, text: &str);
    /// A path through points, or steps: each value holds until the next point.
    fn path(&mut self, class: &str, points: &[(f64, f64)], steps: bool, tip: &str);
    /// A circle.
    fn circle(&mut self, class: &str, at: (f64, f64), radius: f64, tip: &str);
}
