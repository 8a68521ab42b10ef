//! Drawing surfaces of figures: an SVG picture, or a page of PDF.

/// A drawing surface with `y` downwards. Callers give a class for each shape; the surface decides its colours and
/// widths.
pub trait Canvas {
    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64));
    /// Draws a rectangle with round corners; `tip` is shown on hover where the surface supports it.
    fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), radius: f64, tip: &str);
    /// Draws a text; `anchor` is start, middle or end.
    fn text(&mut self, class: &str, at: (f64, f64), anchor: &str, text: &str);
    /// Draws a line through points; with `steps`, each `y` holds until the `x` of the next point.
    fn path(&mut self, class: &str, points: &[(f64, f64)], steps: bool, tip: &str);
    fn circle(&mut self, class: &str, at: (f64, f64), radius: f64, tip: &str);
}
