//! Sections with time series and distributions; every chart is also given as a table.

use super::axis::Axis;
use super::chart::{Chart, ChartLine, ecdf};
use super::data::{FlowData, Points, RunData};
use super::sections::{ReportPage, WIDE, class, close, figure, open, ticks};
use super::svg::escape;
use crate::format::Quantity;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

// Nodes whose store never holds more than this fraction of the fullest one are not drawn.
const FLAT: f64 = 0.05;
// Most stores, and most traffic flows, drawn; the fullest stores are chosen.
const DRAWN: usize = 50;
// Up to this number, stores and flows have a chart each; more share one.
const APART: usize = 6;
// Up to this number, nodes that are not drawn are listed by name.
const NAMED: usize = 20;

/// Form of the lines of a chart.
#[derive(Clone, Copy)]
struct LineStyle {
    /// Whether each value holds until the next point.
    steps: bool,
    /// Whether the area below a line is filled, where it is the only one.
    filled: bool,
}

/// Draws a chart with this label, height and lines.
type DrawLines<'a> = dyn Fn(&mut String, &str, f64, &dyn Fn() -> Vec<ChartLine>) + 'a;

/// Writes a chart in both widths, and its values as a table.
fn chart<'a>(out: &mut String, draw: impl Fn(f64) -> Chart<'a>) {
    figure(out, |width| draw(width).draw(width));
    // The table serves readers who cannot see the picture, so it follows every chart.
    let chart = draw(WIDE);
    out.push_str("<details><summary>The same as a table</summary><div class=\"scroll\"><table><thead><tr>");
    let _ = write!(out, "<th>{}</th>", escape(chart.x_title));
    for line in &chart.lines {
        let _ = write!(out, "<th>{}</th>", escape(&line.tip));
    }
    out.push_str("</tr></thead><tbody>");
    for (x, _) in &chart.x.ticks {
        let _ = write!(out, "<tr><th>{}</th>", chart.x.quantity.text(*x));
        for line in &chart.lines {
            let value = line.at(*x).map_or("none".into(), |y| chart.y.quantity.text(y));
            let _ = write!(out, "<td>{value}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></details>");
}

/// Names of nodes, each with the most bytes that its store held.
type StorePeaks<'a> = Vec<(&'a str, f64)>;

/// Splits the stores into those drawn and the rest; both keep their order.
fn drawn(stores: StorePeaks<'_>) -> (StorePeaks<'_>, StorePeaks<'_>) {
    let most = stores.iter().map(|(_, most)| *most).fold(0.0, f64::max);
    let mut fullest: Vec<(usize, f64)> = stores.iter().map(|(_, most)| *most).enumerate().collect();
    fullest.sort_by(|a, b| b.1.total_cmp(&a.1));
    // Sorted by fullness only to choose; the order of the scenario is kept for drawing.
    let busy = fullest.into_iter().take(DRAWN).filter(|(_, held)| *held > most * FLAT);
    let busy: HashSet<usize> = busy.map(|(place, _)| place).collect();
    let (drawn, rest): (Vec<_>, Vec<_>) = stores.into_iter().enumerate().partition(|(place, _)| busy.contains(place));
    let stores = |of: Vec<(usize, _)>| of.into_iter().map(|(_, store)| store).collect();
    (stores(drawn), stores(rest))
}

/// Writes how full the stores that are not drawn were: for each node, or summed up if there are many.
fn not_drawn(out: &mut String, stores: &[(&str, f64)]) {
    let amount =
        |most: f64| if most > 0.0 { format!("at most {}", Quantity::Bytes.text(most)) } else { "nothing".into() };
    let told = match stores.len() {
        0 => return,
        1..=NAMED => {
            let each: Vec<String> = stores.iter().map(|(node, most)| format!("{} at {node}", amount(*most))).collect();
            each.join(", ")
        }
        count => {
            let empty = stores.iter().filter(|(_, most)| *most == 0.0).count();
            let most = stores.iter().map(|(_, most)| *most).fold(0.0, f64::max);
            match (empty, count - empty) {
                (_, 0) => format!("nothing at {count} nodes"),
                (0, some) => format!("{} at each of {some} nodes", amount(most)),
                (empty, some) => format!("{} at each of {some} nodes, nothing at {empty}", amount(most)),
            }
        }
    };
    let _ = write!(out, "<p class=\"caption\">Not drawn: {}.</p>", escape(&told));
}

impl ReportPage<'_> {
    fn time_axis(&self, width: f64) -> Axis {
        Axis::exact(Quantity::Seconds, 0.0, self.span, ticks(width))
    }

    /// Builds one line for each run for which `points` returns any.
    fn lines(&self, style: LineStyle, points: impl Fn(&RunData) -> Option<Points>) -> Vec<ChartLine> {
        let line = |(i, run): (usize, &RunData)| {
            let points = points(run)?;
            Some(ChartLine {
                class: class(i),
                tip: run.label.clone(),
                points,
                steps: style.steps,
                // Two filled areas would hide each other.
                filled: style.filled && self.runs.len() == 1,
            })
        };
        self.runs.iter().enumerate().filter_map(line).collect()
    }

    /// Writes a chart for each of these nodes or traffic flows; if they are many, one with a line for each, in which
    /// equal ones are one line. `about` is completed by the name.
    fn charts(
        &self,
        out: &mut String,
        (about, names): (&str, &[&str]),
        style: LineStyle,
        points: &dyn Fn(&RunData, &str) -> Option<Points>,
        draw: &DrawLines<'_>,
    ) {
        if names.len() <= APART {
            for name in names {
                let _ = write!(out, "<h3>{}</h3>", escape(name));
                draw(out, &format!("{about} {name}"), 180.0, &|| self.lines(style, |run| points(run, name)));
            }
            return;
        }
        let several = self.runs.len() > 1;
        for (i, run) in self.runs.iter().enumerate() {
            let which = if several { format!(", {}", run.label.to_lowercase()) } else { String::new() };
            let count = names.len();
            let _ = write!(out, "<h3>All {count}{}</h3>", escape(&which));
            out.push_str("<p class=\"caption\">Point at a line for its name.</p>");
            let line = |name: &&str| {
                let class = if i == 0 { "a many" } else { "b many" };
                let points = points(run, name)?;
                Some(ChartLine { class, tip: name.to_string(), points, steps: style.steps, filled: false })
            };
            draw(out, &format!("{about} each{which}"), 270.0, &|| names.iter().filter_map(line).collect());
        }
    }

    /// Names of the traffic flows that are drawn; notes how many are left out.
    fn flows(&self, out: &mut String) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for flow in self.runs.iter().flat_map(|r| &r.flows) {
            if !names.contains(&flow.name.as_str()) {
                names.push(&flow.name);
            }
        }
        if names.len() > DRAWN {
            let _ =
                write!(out, "<p class=\"caption\">The first {DRAWN} of {} traffic flows are drawn.</p>", names.len());
            names.truncate(DRAWN);
        }
        names
    }

    pub fn goodput(&self, out: &mut String) {
        let bin = Quantity::Seconds.text(self.runs[0].bin_s);
        let caption = format!("Payload handed to the receiving applications, averaged over {bin}.");
        open(out, "Goodput: how fast did the data arrive?", &caption);
        self.legend(out, &self.shade_key());
        let most = self.runs.iter().flat_map(|r| &r.goodput).map(|p| p.1).fold(0.0, f64::max);
        let draw = |out: &mut String, label: &str, height: f64, lines: &dyn Fn() -> Vec<ChartLine>| {
            chart(out, |width| Chart {
                label,
                x: self.time_axis(width),
                y: Axis::round(Quantity::Rate, most, if height > 200.0 { 4 } else { 3 }),
                x_title: "time from the start of the run",
                y_title: "goodput",
                lines: lines(),
                shades: self.shades().0,
                height,
            });
        };
        let style = LineStyle { steps: true, filled: true };
        draw(out, "Goodput over time", 270.0, &|| self.lines(style, |run| Some(run.goodput.clone())));
        let of = |run: &RunData, name: &str| Some(flow(run, name)?.goodput.clone());
        let names = self.flows(out);
        self.charts(out, ("Goodput over time of", &names), style, &of, &draw);
        close(out);
    }

    /// All nodes whose store was sampled, in order of first appearance, with the most bytes stored at each.
    fn stores(&self) -> StorePeaks<'_> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut stores = StorePeaks::new();
        for (node, line) in self.runs.iter().flat_map(|run| &run.stored) {
            let place = *places.entry(node).or_insert(stores.len());
            if place == stores.len() {
                stores.push((node, 0.0));
            }
            stores[place].1 = line.iter().map(|point| point.1).fold(stores[place].1, f64::max);
        }
        stores
    }

    pub fn stored(&self, out: &mut String) {
        let stores = self.stores();
        if stores.is_empty() {
            return;
        }
        let line_of =
            |run: &RunData, node: &str| run.stored.iter().find(|(n, _)| n == node).map(|(_, line)| line.clone());
        open(
            out,
            "Store occupancy: how much data waited, and where?",
            "Bytes of bundles in the store of each node, on one scale.",
        );
        self.legend(out, &self.shade_key());
        let most = stores.iter().map(|(_, most)| *most).fold(0.0, f64::max);
        let (busy, rest) = drawn(stores);
        let draw = |out: &mut String, label: &str, height: f64, lines: &dyn Fn() -> Vec<ChartLine>| {
            chart(out, |width| Chart {
                label,
                x: self.time_axis(width),
                y: Axis::round(Quantity::Bytes, most, if height > 200.0 { 4 } else { 3 }),
                x_title: "time from the start of the run",
                y_title: "store occupancy",
                lines: lines(),
                shades: self.shades().0,
                height,
            });
        };
        let names: Vec<&str> = busy.into_iter().map(|(node, _)| node).collect();
        let style = LineStyle { steps: false, filled: true };
        self.charts(out, ("Store occupancy at", &names), style, &line_of, &draw);
        not_drawn(out, &rest);
        close(out);
    }

    pub fn latency(&self, out: &mut String) {
        if self.runs.iter().all(|r| r.latencies.is_empty()) {
            return;
        }
        open(
            out,
            "Latency: how long did bundles take?",
            "Cumulative distribution: the share of all created bundles delivered within a given latency. A line that ends below 100 % means that bundles were lost or are still waiting.",
        );
        self.legend(out, "");
        let most = self.runs.iter().filter_map(|r| r.latencies.last()).copied().fold(0.0, f64::max);
        let draw = |out: &mut String, label: &str, height: f64, lines: &dyn Fn() -> Vec<ChartLine>| {
            chart(out, |width| Chart {
                label,
                x: Axis::round(Quantity::Seconds, most, ticks(width)),
                y: Axis::round(Quantity::Share, 1.0, if height > 200.0 { 5 } else { 2 }),
                x_title: "latency, from creation to delivery",
                y_title: "bundles delivered",
                lines: lines(),
                shades: Vec::new(),
                height,
            });
        };
        // The curve starts at zero latency with nothing delivered.
        let curve = |latencies: &[f64], created: usize| {
            let points = ecdf(latencies, created);
            (!points.is_empty()).then(|| [(0.0, 0.0)].into_iter().chain(points).collect())
        };
        let style = LineStyle { steps: true, filled: false };
        let whole = |run: &RunData| curve(&run.latencies, run.statistics.wanted() as usize);
        draw(out, "Distribution of latency", 300.0, &|| self.lines(style, whole));
        let of = |run: &RunData, name: &str| flow(run, name).and_then(|f| curve(&f.latencies, f.created));
        let names = self.flows(out);
        self.charts(out, ("Distribution of the latency of", &names), style, &of, &draw);
        close(out);
    }
}

fn flow<'a>(run: &'a RunData, name: &str) -> Option<&'a FlowData> {
    run.flows.iter().find(|flow| flow.name == name)
}
