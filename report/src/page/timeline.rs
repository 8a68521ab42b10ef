//! Contact timeline: the intervals in which each direction of each link is up.

use super::axis::Axis;
use super::chart::titled;
use super::svg::{Svg, text_width};
use crate::format::Quantity;
use crate::manifest::{ContactFacts, Topology};

// A page stays readable to about this height; the caption counts the rows left out.
const ROWS: usize = 40;

/// One row: label and contacts as (start, end, rate); `None` if the link is always up.
struct TimelineRow {
    label: String,
    times: Option<Vec<(f64, f64, Option<f64>)>>,
}

fn rows(topology: &Topology, end_s: f64) -> Vec<TimelineRow> {
    let mut rows = Vec::new();
    for link in &topology.links {
        let direction = |from: &str| -> Vec<(f64, f64, Option<f64>)> {
            let mine = |c: &&ContactFacts| c.link == link.name && c.from == from;
            topology.contacts.iter().filter(mine).map(|c| (c.start_s, c.end_s, c.rate_bit_s)).collect()
        };
        let (forward, reverse) = (direction(&link.from), direction(&link.to));
        let spans = |times: &[(f64, f64, Option<f64>)]| times.iter().map(|t| (t.0, t.1)).collect::<Vec<_>>();
        if !topology.scheduled(link, end_s) {
            rows.push(TimelineRow { label: format!("{}: {} ↔ {}", link.name, link.from, link.to), times: None });
        // Both directions share a row if they are up at the same times.
        } else if spans(&forward) == spans(&reverse) {
            rows.push(TimelineRow {
                label: format!("{}: {} ↔ {}", link.name, link.from, link.to),
                times: Some(forward),
            });
        } else {
            rows.push(TimelineRow {
                label: format!("{}: {} → {}", link.name, link.from, link.to),
                times: Some(forward),
            });
            rows.push(TimelineRow {
                label: format!("{}: {} → {}", link.name, link.to, link.from),
                times: Some(reverse),
            });
        }
    }
    rows
}

/// Draws the timeline from 0 to `span_s`; returns the picture and the number of rows left out.
pub fn draw(topology: &Topology, span_s: f64, width: f64) -> (String, usize) {
    let narrow = width < 600.0;
    let mut rows = rows(topology, span_s);
    let left_out = rows.len().saturating_sub(ROWS);
    rows.truncate(ROWS);
    let widest = rows.iter().map(|r| text_width(&r.label, 13.0)).fold(0.0, f64::max);
    let left = if narrow { 2.0 } else { widest.min(width * 0.4) + 12.0 };
    let right = width - 12.0;
    let step = if narrow { 40.0 } else { 30.0 };
    let bottom = rows.len() as f64 * step + 6.0;
    let axis = Axis::exact(Quantity::Seconds, 0.0, span_s, super::sections::ticks(width));
    let mut svg = Svg::new(width, bottom + 42.0, "Contact timeline");
    let x = |t: f64| axis.place(t.clamp(0.0, span_s), left, right);
    for (value, text) in &axis.ticks {
        svg.line("grid", (x(*value), 0.0), (x(*value), bottom));
        svg.text("tick", (x(*value), bottom + 17.0), if x(*value) < 14.0 { "start" } else { "middle" }, text);
    }
    svg.text("title", (right, bottom + 35.0), "end", &titled("time from the start of the run", &axis.unit));
    for (i, row) in rows.iter().enumerate() {
        let top = i as f64 * step + if narrow { 20.0 } else { 6.0 };
        let (at, anchor) = if narrow { ((left, top - 5.0), "start") } else { ((left - 10.0, top + 13.0), "end") };
        svg.text("label halo", at, anchor, &row.label);
        svg.rect("rail", (left, top), (right - left, 18.0), 3.0, "");
        match &row.times {
            None => {
                svg.rect("contact always", (left, top), (right - left, 18.0), 3.0, &format!("{}: always up", row.label))
            }
            Some(times) => {
                for (start, end, rate) in merged(times, span_s / (right - left)) {
                    let seconds = |s: f64| Quantity::Seconds.text(s);
                    let rate = rate.map_or(String::new(), |r| format!(", {}", Quantity::Rate.text(r)));
                    let tip = format!("{}: {} to {}{rate}", row.label, seconds(start), seconds(end));
                    // Contacts planned behind the end of the run are outside the axis.
                    if start < span_s {
                        svg.rect("contact", (x(start), top), ((x(end) - x(start)).max(1.0), 18.0), 3.0, &tip);
                    }
                }
            }
        }
    }
    (svg.finish(), left_out)
}

/// Merges contacts closer together than a pixel, so that a year of passes stays small.
fn merged(times: &[(f64, f64, Option<f64>)], pixel_s: f64) -> Vec<(f64, f64, Option<f64>)> {
    let mut sorted = times.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out: Vec<(f64, f64, Option<f64>)> = Vec::new();
    for time in sorted {
        match out.last_mut() {
            Some(last) if time.0 - last.1 < pixel_s => last.1 = last.1.max(time.1),
            _ => out.push(time),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_within_a_pixel_become_one() {
        let times: Vec<_> = (0..10_000).map(|i| (f64::from(i), f64::from(i) + 0.5, None)).collect();
        assert_eq!(merged(&times, 1.0), [(0.0, 9999.5, None)]);
        assert_eq!(merged(&times[..3], 0.1).len(), 3);
    }
}
