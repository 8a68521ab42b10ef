//! Horizontal bar charts: one group per item, one bar per run.

use super::svg::{Svg, text_width};
use crate::format::Quantity;

/// One item with a value per run.
pub struct BarGroup {
    pub label: String,
    /// CSS class and value per run; an absent value leaves a gap.
    pub values: Vec<(&'static str, Option<f64>)>,
}

/// Draws the groups below each other. In narrow charts the labels stand above their bars. `most` is the value of a bar
/// of full length, by default the largest.
pub fn draw(label: &str, groups: &[BarGroup], quantity: Quantity, most: Option<f64>, width: f64) -> String {
    let narrow = width < 600.0;
    let runs = groups.iter().map(|g| g.values.len()).max().unwrap_or(0).max(1);
    let largest = groups.iter().flat_map(|g| &g.values).filter_map(|(_, v)| *v).fold(0.0, f64::max);
    // Positive, because lengths are divided by it.
    let most = most.unwrap_or(largest).max(f64::MIN_POSITIVE);
    let texts = groups.iter().flat_map(|g| &g.values).filter_map(|(_, v)| v.map(|v| quantity.text(v)));
    let room = texts.map(|t| text_width(&t, 12.0)).fold(30.0, f64::max) + 12.0;
    let widest = groups.iter().map(|g| text_width(&g.label, 13.0)).fold(0.0, f64::max);
    let left = if narrow { 2.0 } else { widest.min(width * 0.4) + 12.0 };
    let right = width - room;
    let (bar, gap) = (15.0, 3.0);
    let bars = runs as f64 * (bar + gap);
    let group = bars + if narrow { 34.0 } else { 14.0 };
    let mut svg = Svg::new(width, group * groups.len() as f64 + 4.0, label);
    for (i, g) in groups.iter().enumerate() {
        let top = i as f64 * group;
        let (mut y, label_at) = if narrow {
            (top + 20.0, (2.0, top + 14.0))
        } else {
            (top + 4.0, (left - 10.0, top + 4.0 + bars / 2.0 + 3.0))
        };
        svg.text("label", label_at, if narrow { "start" } else { "end" }, &g.label);
        for (class, value) in &g.values {
            svg.rect("rail", (left, y), (right - left, bar), 3.0, "");
            match value {
                Some(value) => {
                    let length = (value / most).clamp(0.0, 1.0) * (right - left);
                    let text = quantity.text(*value);
                    svg.rect(
                        &format!("bar {class}"),
                        (left, y),
                        // A value of zero still shows as a sliver.
                        (length.max(1.5), bar),
                        3.0,
                        &format!("{}: {text}", g.label),
                    );
                    svg.text("value", (right + 7.0, y + 12.0), "start", &text);
                }
                None => svg.text("tick", (right + 7.0, y + 12.0), "start", "none"),
            }
            y += bar + gap;
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_labelled() {
        let groups = [
            BarGroup { label: "one <b>".into(), values: vec![("a", Some(1.0)), ("b", None)] },
            BarGroup { label: "two".into(), values: vec![("a", Some(2.0)), ("b", Some(0.0))] },
        ];
        let svg = draw("bars", &groups, Quantity::Seconds, None, 400.0);
        assert!(
            svg.contains("one &lt;b&gt;: 1 s") && svg.contains(">none<") && svg.contains(r#"width="1.5""#),
            "{svg}"
        );
        assert!(draw("none", &[], Quantity::Seconds, None, 400.0).contains("svg"));
    }
}
