//! The table of phases: resource use of each role, and delivery of the bundles created, in each phase.

use super::retention::retention;
use super::sections::{ReportPage, close, open};
use super::svg::escape;
use crate::format::Quantity;
use crate::phase::{PhaseUse, RoleUse};
use std::fmt::Write as _;

impl ReportPage<'_> {
    pub fn phases(&self, out: &mut String) {
        let runs = || self.runs.iter().filter(|run| !run.statistics.phases.is_empty());
        if runs().next().is_none() {
            return;
        }
        open(
            out,
            "Phases: what happened when?",
            "Bundles by the phase in which they were created, and what roles used.",
        );
        for run in runs() {
            if self.runs.len() > 1 {
                let _ = write!(out, "<h3>{}</h3>", escape(&run.label));
            }
            out.push_str(
                "<div class=\"scroll\"><table class=\"stack\" style=\"--columns:5\"><thead><tr><th>phase</th>\
                 <th>time</th><th>bundles</th><th>mean latency</th><th>median round trip</th>\
                 <th>goodput, at the receiver</th></tr></thead><tbody>",
            );
            run.statistics.phases.iter().for_each(|phase| phase_row(out, phase));
            out.push_str("</tbody></table></div>");
            retention(out, &run.statistics.phases);
            roles(out, &run.statistics.phases);
            baselines(out, &run.statistics.phases);
        }
        close(out);
    }
}

fn phase_row(out: &mut String, phase: &PhaseUse) {
    let seconds = |s: f64| Quantity::Seconds.text(s);
    let rate = |rate: Option<f64>| rate.map_or("n/a".into(), |rate| Quantity::Rate.text(rate));
    let _ = write!(
        out,
        "<tr><th>{}</th><td>{} to {}</td><td>{} of {} delivered</td><td>{}</td><td>{}</td><td>{}, {}</td></tr>",
        escape(&phase.facts.name),
        seconds(phase.facts.start_s),
        seconds(phase.facts.end_s),
        phase.delivered,
        phase.created,
        phase.latency_s.map_or("n/a".into(), |latency| seconds(latency.mean)),
        phase.round_trip_s.map_or("n/a".into(), |times| seconds(times.p50)),
        rate(phase.goodput_bit_s),
        rate(phase.goodput_received_bit_s),
    );
}

fn roles(out: &mut String, phases: &[PhaseUse]) {
    if phases.iter().all(|phase| phase.facts.roles.is_empty()) {
        return;
    }
    out.push_str(
        "<div class=\"scroll\"><table class=\"stack\" style=\"--columns:6\"><thead><tr><th>phase, role</th><th>CPU</th>\
         <th>of a processor</th><th>quartiles</th><th>peak memory</th><th>anonymous, shared, cache</th></tr></thead><tbody>",
    );
    for (phase, role) in phases.iter().flat_map(|phase| phase.facts.roles.iter().map(move |role| (phase, role))) {
        let bytes = |b: u64| Quantity::Bytes.text(b as f64);
        let RoleUse { anonymous_peak_bytes, shared_peak_bytes, cache_peak_bytes, .. } = role;
        let (percent, quartiles) = role.cpu_percent.map_or(("n/a".into(), "n/a".into()), |spread| {
            let mean = format!("{:.1} % &plusmn; {:.1}", spread.mean, spread.sd);
            (mean, format!("{:.1}, {:.1}, {:.1} %", spread.p25, spread.p50, spread.p75))
        });
        let of = role.node.as_ref().map_or(String::new(), |node| format!(" of {node}"));
        let _ = write!(
            out,
            "<tr><th>{}</th><td>{}</td><td>{percent}</td><td>{quartiles}</td><td>{}</td><td>{}, {}, {}</td></tr>",
            escape(&format!("{}: {}{of}", phase.facts.name, role.role)),
            Quantity::Seconds.text(role.cpu_s()),
            bytes(role.memory_peak_bytes),
            bytes(*anonymous_peak_bytes),
            bytes(*shared_peak_bytes),
            bytes(*cache_peak_bytes),
        );
    }
    out.push_str("</tbody></table></div>");
}

fn baselines(out: &mut String, phases: &[PhaseUse]) {
    for flow in phases.iter().flat_map(|phase| &phase.facts.baseline) {
        let rate = flow.bit_s.map_or("nothing arrived".into(), |rate| Quantity::Rate.text(rate));
        let text =
            format!("Baseline of link {}, {} from {} to {}: {rate}.", flow.link, flow.transport, flow.from, flow.to);
        let _ = write!(out, "<p class=\"caption\">{}</p>", escape(&text));
    }
}
