//! Sections of the page, each with a question as its heading.

use super::bars::{self, BarGroup};
use super::data::{OTHER_PATHS, PathStep, RunData};
use super::findings::{self, Finding, Severity};
use super::svg::escape;
use super::{network, timeline};
use crate::compare::{ComparedMetric, Comparison};
use crate::format::{Quantity, difference};
use crate::manifest::{Accounting, RunWorld};
use crate::schema::LinkRow;
use std::fmt::Write;

/// Widths in which each figure is drawn; the style sheet shows the one that fits.
pub const WIDE: f64 = 1030.0;
const NARROW: f64 = 348.0;
// Most key figures of single traffic flows in the main table; if there are more, they get a table of their own.
const FLOW_ROWS: usize = 12;

/// Data shared by all sections.
pub struct ReportPage<'a> {
    pub runs: &'a [RunData],
    pub comparison: &'a Comparison,
    pub span: f64,
}

pub fn class(index: usize) -> &'static str {
    if index == 0 { "a" } else { "b" }
}

/// Number of ticks for a horizontal axis of this width.
pub fn ticks(width: f64) -> usize {
    (width / 80.0) as usize
}

/// Joins numbers and their units with no-break spaces.
fn unbroken(text: &str) -> String {
    const UNITS: &[&str] = &["%", "s", "ms", "µs", "min", "h", "d", "B", "kB", "MB", "GB", "TB"];
    let mut out = String::with_capacity(text.len());
    for word in text.split(' ') {
        let unit = UNITS.contains(&word.trim_end_matches(['.', ',', ';', ')']));
        let after_number = out.ends_with(|c: char| c.is_ascii_digit());
        if !out.is_empty() {
            out.push(if unit && after_number { '\u{a0}' } else { ' ' });
        }
        out.push_str(word);
    }
    out
}

pub fn open(out: &mut String, heading: &str, caption: &str) {
    let _ = write!(out, "<section><h2>{}</h2>", escape(heading));
    if !caption.is_empty() {
        let _ = write!(out, "<p class=\"caption\">{}</p>", escape(caption));
    }
}

pub fn close(out: &mut String) {
    out.push_str("</section>\n");
}

/// Draws a figure in both widths.
pub fn figure(out: &mut String, draw: impl Fn(f64) -> String) {
    let _ = write!(out, "<div class=\"wide\">{}</div><div class=\"narrow\">{}</div>", draw(WIDE), draw(NARROW));
}

fn list(out: &mut String, findings: &[Finding]) {
    out.push_str("<ul class=\"findings\">");
    for finding in findings {
        let class = match finding.level {
            Severity::Good => "good",
            Severity::Note => "note",
            Severity::Bad => "bad",
        };
        let mut text = finding.text.chars();
        // Findings begin in lower case, because the label of a run may precede them.
        let text: String = text.next().into_iter().flat_map(char::to_uppercase).chain(text).collect();
        let _ = write!(out, "<li class=\"{class}\">{}</li>", escape(&unbroken(&text)));
    }
    out.push_str("</ul>");
}

impl ReportPage<'_> {
    pub fn legend(&self, out: &mut String, more: &str) {
        if self.runs.len() < 2 && more.is_empty() {
            return;
        }
        out.push_str("<div class=\"legend\">");
        if self.runs.len() > 1 {
            for (i, run) in self.runs.iter().enumerate() {
                let _ = write!(out, "<span class=\"key {}\">{}</span>", class(i), escape(&run.label));
            }
        }
        out.push_str(more);
        out.push_str("</div>");
    }

    /// Names of the links that the contact plan turns on and off during the run.
    fn scheduled(&self) -> impl Iterator<Item = &str> {
        let topology = &self.runs[0].manifest.topology;
        topology.links.iter().filter(|l| topology.scheduled(l, self.span)).map(|l| l.name.as_str())
    }

    /// Intervals in which either direction of the scheduled link is up, and its name. Empty for more than 100
    /// intervals, and unless exactly one link is scheduled: a background of several would be ambiguous.
    pub fn shades(&self) -> (Vec<(f64, f64, String)>, Option<String>) {
        let topology = &self.runs[0].manifest.topology;
        let scheduled: Vec<&str> = self.scheduled().collect();
        let [link] = scheduled[..] else { return (Vec::new(), None) };
        let mine = topology.contacts.iter().filter(|c| c.link == link);
        let mut spans: Vec<(f64, f64)> = mine.map(|c| (c.start_s, c.end_s)).collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        spans.dedup();
        // More intervals than this would merge into a grey area.
        if spans.len() > 100 {
            return (Vec::new(), None);
        }
        let shades = spans.into_iter().map(|(from, to)| (from, to, format!("{link} up"))).collect();
        (shades, Some(link.to_string()))
    }

    pub fn shade_key(&self) -> String {
        let key = |link: String| format!("<span class=\"key shaded\">{} up</span>", escape(&link));
        self.shades().1.map_or(String::new(), key)
    }

    pub fn findings(&self, out: &mut String) {
        open(out, "What happened?", "");
        list(out, &findings::findings(self.runs, self.comparison));
        close(out);
    }

    pub fn numbers(&self, out: &mut String) {
        let two = self.runs.len() > 1;
        let caption =
            if two { "Differences are relative to the first column; those above 10 % are marked." } else { "" };
        open(out, "Key numbers", caption);
        // Metrics that no run has are left out; utilisation has a section of its own.
        let told = |m: &&ComparedMetric| !m.name.starts_with("utilisation.") && m.values.iter().any(Option::is_some);
        let (flows, whole): (Vec<_>, Vec<_>) =
            self.comparison.metrics.iter().filter(told).partition(|m| m.name.starts_with("traffic."));
        if flows.len() > FLOW_ROWS {
            self.metrics(out, &whole);
            out.push_str("<details><summary>Each traffic flow</summary>");
            self.metrics(out, &flows);
            out.push_str("</details>");
        } else {
            self.metrics(out, &[whole, flows].concat());
        }
        close(out);
    }

    fn metrics(&self, out: &mut String, metrics: &[&ComparedMetric]) {
        let two = self.runs.len() > 1;
        let columns = if two { 3 } else { 1 };
        let _ = write!(
            out,
            "<div class=\"scroll\"><table class=\"stack\" style=\"--columns:{columns}\"><thead><tr><th></th>"
        );
        for run in self.runs {
            let _ = write!(out, "<th>{}</th>", escape(&run.label));
        }
        out.push_str(if two { "<th>difference</th></tr></thead><tbody>" } else { "</tr></thead><tbody>" });
        for metric in metrics {
            let _ = write!(out, "<tr><th>{}</th>", escape(&metric.title));
            for value in &metric.values {
                let text = value.map_or("none".into(), |v| metric.quantity.text(v));
                let _ = write!(out, "<td>{}</td>", escape(&text));
            }
            if two {
                let mark = match metric.within_10_percent {
                    Some(true) => "good",
                    Some(false) if metric.notable() => "bad",
                    _ => "",
                };
                let remark = metric.remark();
                let text = match metric.difference[1] {
                    Some(relative) if metric.within_10_percent != Some(false) => difference(relative),
                    Some(relative) => format!("{}, {remark}", difference(relative)),
                    None if remark.is_empty() => "-".into(),
                    None => remark.into(),
                };
                let _ = write!(out, "<td class=\"difference {mark}\">{}</td>", escape(&text));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
    }

    pub fn network(&self, out: &mut String) {
        let topology = &self.runs[0].manifest.topology;
        // Radio contacts are shown by the map instead.
        if topology.links.is_empty() {
            return;
        }
        let caption = match self.scheduled().next().is_some() {
            true => {
                "Rate, one-way delay and loss of links, taken from the contact plan where it gives them. Dashed links are scheduled: up only during contacts."
            }
            false => "Rate, one-way delay and loss of links, in both directions where they differ.",
        };
        open(out, "Topology: what does the network look like?", caption);
        figure(out, |width| network::draw(topology, self.span, width));
        network::table(out, topology, self.span);
        close(out);
    }

    pub fn contacts(&self, out: &mut String) {
        let topology = &self.runs[0].manifest.topology;
        let scheduled = self.scheduled().count();
        if scheduled == 0 {
            return;
        }
        open(
            out,
            "Contacts: when could the links carry data?",
            "Contacts of scheduled links. Packets sent outside a contact are lost; packets in flight when it ends still arrive.",
        );
        let always = scheduled < topology.links.len();
        out.push_str("<div class=\"legend\"><span class=\"key timed\">scheduled</span>");
        out.push_str(if always { "<span class=\"key always\">always up</span></div>" } else { "</div>" });
        figure(out, |width| timeline::draw(topology, self.span, width).0);
        let left_out = timeline::draw(topology, self.span, WIDE).1;
        if left_out > 0 {
            let _ = write!(out, "<p class=\"caption\">{left_out} more rows are not drawn.</p>");
        }
        close(out);
    }

    pub fn steps(&self, out: &mut String) {
        let mut labels: Vec<&str> = Vec::new();
        for step in self.runs.iter().flat_map(|r| &r.steps) {
            if !labels.contains(&step.label.as_str()) {
                labels.push(&step.label);
            }
        }
        if !self.runs.iter().any(|run| tells(&run.steps)) {
            return;
        }
        open(
            out,
            "Latency by step: where did the time go?",
            "Mean time of a delivered bundle in each step of its path; the steps add up to the mean latency. \u{201c}At\u{201d} a node it waits for its turn or for a contact; \u{201c}from\u{201d} one node \u{201c}to\u{201d} the next it is sent, travels, and is sent again where packets were lost.",
        );
        self.legend(out, "");
        let value = |run: &RunData, label: &str| run.steps.iter().find(|s| s.label == label).map(|s| s.mean_s);
        let groups: Vec<BarGroup> = labels
            .iter()
            .map(|label| BarGroup {
                label: label.to_string(),
                values: self.runs.iter().enumerate().map(|(i, r)| (class(i), value(r, label))).collect(),
            })
            .collect();
        figure(out, |width| bars::draw("Mean time in each step", &groups, Quantity::Seconds, None, width));
        close(out);
    }

    pub fn links(&self, out: &mut String) {
        let mut places: Vec<(&str, &str, &str)> = Vec::new();
        for row in self.runs.iter().flat_map(|r| &r.links) {
            let place = (&*row.link, &*row.from_node, &*row.to_node);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        if places.is_empty() {
            return;
        }
        open(
            out,
            "Utilisation: how were the links used?",
            "Time spent transmitting, as a share of the time in which the contact plan let the link transmit.",
        );
        self.legend(out, "");
        let row = |run: &RunData, place: &(&str, &str, &str)| -> Option<LinkRow> {
            run.links.iter().find(|r| (&*r.link, &*r.from_node, &*r.to_node) == *place).cloned()
        };
        let used = |r: &LinkRow| (r.up_ns > 0).then(|| r.busy_ns as f64 / r.up_ns as f64);
        let groups: Vec<BarGroup> = places
            .iter()
            .map(|place| BarGroup {
                label: format!("{}: {} → {}", place.0, place.1, place.2),
                values: self
                    .runs
                    .iter()
                    .enumerate()
                    .map(|(i, r)| (class(i), row(r, place).as_ref().and_then(used)))
                    .collect(),
            })
            .collect();
        figure(out, |width| bars::draw("Utilisation of each link", &groups, Quantity::Share, Some(1.0), width));
        let columns = self.runs.len() * 2;
        let _ = write!(
            out,
            "<div class=\"scroll\"><table class=\"stack\" style=\"--columns:{columns}\"><thead><tr><th>direction</th>"
        );
        for run in self.runs {
            let suffix = if self.runs.len() > 1 { format!(", {}", run.label.to_lowercase()) } else { String::new() };
            let _ = write!(out, "<th>sent{0}</th><th>packets lost{0}</th>", escape(&suffix));
        }
        out.push_str("</tr></thead><tbody>");
        for place in &places {
            let label = format!("{}: {} → {}", place.0, place.1, place.2);
            let _ = write!(out, "<tr><th>{}</th>", escape(&label));
            for run in self.runs {
                match row(run, place) {
                    Some(r) => {
                        let sent = Quantity::Bytes.text(r.sent_bytes as f64);
                        let _ = write!(out, "<td>{sent}</td><td title=\"{}\">{}</td>", escape(&losses(&r)), lost(&r));
                    }
                    None => out.push_str("<td>none</td><td>none</td>"),
                }
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        close(out);
    }

    pub fn processes(&self, out: &mut String) {
        if self.runs.iter().all(|r| r.processes.is_empty()) {
            return;
        }
        open(
            out,
            "Resources: what did it cost?",
            "CPU time and peak resident memory of each process over the whole run.",
        );
        let several = self.runs.iter().filter(|r| !r.processes.is_empty()).count() > 1;
        out.push_str("<div class=\"scroll\"><table class=\"stack\" style=\"--columns:3\"><thead><tr><th>process</th><th>CPU, user</th><th>CPU, kernel</th><th>peak memory</th></tr></thead><tbody>");
        for run in self.runs {
            for p in &run.processes {
                let name = p.node.as_ref().map_or(p.process.to_string(), |node| format!("{} of {node}", p.process));
                let name = if several { format!("{name}, {}", run.label.to_lowercase()) } else { name };
                let _ = write!(
                    out,
                    "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
                    escape(&name),
                    Quantity::Seconds.text(p.cpu_user_s),
                    Quantity::Seconds.text(p.cpu_system_s),
                    Quantity::Bytes.text(p.rss_peak_bytes as f64)
                );
            }
        }
        out.push_str("</tbody></table></div>");
        for run in self.runs.iter().filter(|r| !r.processes.is_empty()) {
            let text = match run.manifest.validity.accounting {
                Accounting::Cgroup => {
                    "measured by control groups of each host and role, besides those of single processes"
                }
                Accounting::Proc => "read from /proc when each process ended",
                Accounting::None => continue,
            };
            let _ = write!(out, "<p class=\"caption\">{}: {text}.</p>", escape(&run.label));
        }
        close(out);
    }

    pub fn validity(&self, out: &mut String) {
        open(out, "Validity: can it be trusted?", "What could have disturbed the measurement.");
        for run in self.runs {
            if self.runs.len() > 1 {
                let _ = write!(out, "<h3>{}</h3>", escape(&run.label));
            }
            list(out, &findings::validity(run));
        }
        close(out);
    }

    pub fn repeat(&self, out: &mut String) {
        open(out, "Reproducibility: how can it be repeated?", "");
        out.push_str("<div class=\"runs\">");
        for run in self.runs {
            let m = &run.manifest;
            let _ = write!(out, "<div><h3>{}</h3><dl>", escape(&run.label));
            let mut put = |term: &str, text: String| {
                if !text.is_empty() {
                    let _ = write!(out, "<dt>{term}</dt><dd>{}</dd>", escape(&text));
                }
            };
            put("command", m.command.clone());
            put("seed", m.seed.to_string());
            put(
                "start",
                if m.world == RunWorld::Sim { format!("{} (simulated)", m.start_utc) } else { m.start_utc.clone() },
            );
            put("scenario hash", m.scenario_hash.clone());
            let versions: Vec<String> = m.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
            put("versions", versions.join(", "));
            put("machine", machine(&m.host));
            put("tables in", run.folder.clone());
            out.push_str("</dl></div>");
        }
        out.push_str("</div>");
        let m = &self.runs[0].manifest;
        let _ =
            write!(out, "<details><summary>Scenario file</summary><pre>{}</pre></details>", escape(&m.scenario_text));
        if let Some(plan) = &m.plan_text {
            let _ = write!(out, "<details><summary>Contact plan</summary><pre>{}</pre></details>", escape(plan));
        }
        close(out);
    }
}

/// Whether a chart of the steps says more than the latency itself: the time is spent in more than one of them, and not
/// mostly on paths that the chart does not follow.
fn tells(steps: &[PathStep]) -> bool {
    // A step of less than this fraction of the time is a sliver in the chart.
    const SLIVER: f64 = 0.01;
    let whole: f64 = steps.iter().map(|step| step.mean_s).sum();
    let other: f64 = steps.iter().filter(|step| step.label == OTHER_PATHS).map(|step| step.mean_s).sum();
    let seen = steps.iter().filter(|step| step.mean_s > whole * SLIVER).count();
    seen > 1 && other < whole / 2.0
}

fn machine(host: &crate::manifest::Host) -> String {
    let mut parts = vec![host.kernel.clone(), host.cpu.clone()];
    if host.cpus > 0 {
        parts.push(format!("{} processors", host.cpus));
    }
    if host.memory_bytes > 0 {
        parts.push(format!("{} of memory", Quantity::Bytes.text(host.memory_bytes as f64)));
    }
    parts.retain(|p| !p.is_empty());
    parts.join(", ")
}

fn lost(row: &LinkRow) -> String {
    match (row.sent_packets, row.dropped_packets()) {
        (0, _) => "none sent".into(),
        (_, 0) => "none".into(),
        (sent, lost) => Quantity::Share.text(lost as f64 / sent as f64),
    }
}

/// Describes the losses by reason.
fn losses(row: &LinkRow) -> String {
    let reasons = [
        ("lost at random", row.dropped_loss),
        ("to bit errors", row.dropped_bit_error),
        ("while the link was down", row.dropped_down),
        ("cut off by the end of a contact", row.dropped_window_end),
        ("in a full queue", row.dropped_queue_full),
    ];
    let parts: Vec<String> = reasons.iter().filter(|(_, n)| *n > 0).map(|(why, n)| format!("{n} {why}")).collect();
    format!(
        "{} packets sent; {}",
        row.sent_packets,
        if parts.is_empty() { "none lost".into() } else { parts.join(", ") }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_tell_nothing_are_left_out() {
        let steps = |times: &[(&str, f64)]| -> Vec<PathStep> {
            times.iter().map(|(label, mean_s)| PathStep { label: label.to_string(), mean_s: *mean_s }).collect()
        };
        assert!(tells(&steps(&[("at a", 2.0), ("from a to b", 1.0)])));
        assert!(!tells(&steps(&[("at a", 0.001), ("from a to b", 1.0), ("at b", 0.0)])), "all of it in one step");
        assert!(!tells(&steps(&[("at a", 2.0), ("from a to b", 1.0), (OTHER_PATHS, 9.0)])), "elsewhere");
        assert!(!tells(&[]) && !tells(&steps(&[("at a", 0.0)])));
    }

    #[test]
    fn numbers_stay_with_their_units() {
        assert_eq!(
            unbroken("all 800 bundles took 3.2 s, 10 % more."),
            "all 800 bundles took 3.2\u{a0}s, 10\u{a0}% more."
        );
    }
}
