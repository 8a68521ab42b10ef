//! SVG as text. Every text goes through [`escape`], and every colour comes from the style sheet, so that one figure
//! serves light and dark pages.

use super::canvas::Canvas;
use std::fmt::Write;

/// Escapes a text for HTML and SVG elements and quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML forbids control characters.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Formats a coordinate to a tenth of a pixel.
pub fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_string).unwrap_or(text)
}

/// Estimated width of a text in the page's font; wide enough for most texts.
pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}

/// A figure being drawn.
pub struct Svg {
    width: f64,
    height: f64,
    label: String,
    body: String,
}

impl Svg {
    /// Creates an empty figure; `label` describes it to screen readers.
    pub fn new(width: f64, height: f64, label: &str) -> Svg {
        Svg { width, height, label: label.to_string(), body: String::new() }
    }
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = ((px(from.0), px(from.1)), (px(to.0), px(to.1)));
        let _ = write!(self.body, r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#);
    }
    /// Draws a rectangle; a non-empty `tip` is shown on hover.
    pub fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), radius: f64, tip: &str) {
        let (x, y, w, h, r) = (px(at.0), px(at.1), px(size.0.max(0.0)), px(size.1.max(0.0)), px(radius));
        let _ = write!(self.body, r#"<rect class="{class}" x="{x}" y="{y}" width="{w}" height="{h}" rx="{r}""#);
        self.close("rect", tip);
    }
    /// Draws a text; `anchor` is start, middle or end.
    pub fn text(&mut self, class: &str, at: (f64, f64), anchor: &str, text: &str) {
        let (x, y) = (px(at.0), px(at.1));
        let text = escape(text);
        let _ = write!(self.body, r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#);
    }
    /// Draws a line through points; with `steps`, each `y` holds until the `x` of the next point.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)], steps: bool, tip: &str) {
        let mut d = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let (x, y) = (px(*x), px(*y));
            match (i, steps) {
                (0, _) => drop(write!(d, "M{x} {y}")),
                (_, true) => drop(write!(d, "H{x}V{y}")),
                (_, false) => drop(write!(d, "L{x} {y}")),
            }
        }
        let _ = write!(self.body, r#"<path class="{class}" d="{d}""#);
        self.close("path", tip);
    }
    pub fn circle(&mut self, class: &str, at: (f64, f64), radius: f64, tip: &str) {
        let (x, y, r) = (px(at.0), px(at.1), px(radius));
        let _ = write!(self.body, r#"<circle class="{class}" cx="{x}" cy="{y}" r="{r}""#);
        self.close("circle", tip);
    }
    fn close(&mut self, element: &str, tip: &str) {
        if tip.is_empty() {
            self.body.push_str("/>");
        } else {
            let _ = write!(self.body, "><title>{}</title></{element}>", escape(tip));
        }
    }
    /// Renders the SVG element.
    pub fn finish(self) -> String {
        let (w, h, label) = (px(self.width), px(self.height), escape(&self.label));
        let body = self.body;
        format!(r#"<svg viewBox="0 0 {w} {h}" role="img" aria-label="{label}">{body}</svg>"#)
    }
}

impl Canvas for Svg {
    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        Svg::line(self, class, from, to);
    }
    fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), radius: f64, tip: &str) {
        Svg::rect(self, class, at, size, radius, tip);
    }
    fn text(&mut self, class: &str, at: (f64, f64), anchor: &str, text: &str) {
        Svg::text(self, class, at, anchor, text);
    }
    fn path(&mut self, class: &str, points: &[(f64, f64)], steps: bool, tip: &str) {
        Svg::path(self, class, points, steps, tip);
    }
    fn circle(&mut self, class: &str, at: (f64, f64), radius: f64, tip: &str) {
        Svg::circle(self, class, at, radius, tip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn svg_texts_cannot_escape_markup() {
        assert_eq!(escape(r#"<a href="x">&'</a>"#), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&lt;/a&gt;");
        assert_eq!(escape("a\u{0}b\u{1b}"), "a\u{fffd}b\u{fffd}");
        let mut svg = Svg::new(10.0, 10.0, "\"><script>");
        svg.text("t", (1.0, 2.0), "start", "<script>");
        svg.rect("r", (0.0, 0.0), (-1.0, 1.0), 0.0, "</title><script>");
        let text = svg.finish();
        assert!(!text.contains("<script>") && text.contains(r#"width="0""#), "{text}");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!((px(3.0), px(3.1499), px(-0.04)), ("3".into(), "3.1".into(), "-0".into()));
    }
}
