//! The table of plain flows.

use super::sections::{self, ReportPage};
use super::svg::escape;
use crate::format::Quantity;
use crate::plain_flow::PlainFlow;
use std::fmt::Write;

impl ReportPage<'_> {
    /// Table of the scenario's plain TCP and UDP flows.
    pub fn plain_flows(&self, out: &mut String) {
        if self.runs.iter().all(|run| run.manifest.flows.is_empty()) {
            return;
        }
        let caption = "Plain TCP and UDP between hosts, beside the bundles. Rates are of payload as received.";
        sections::open(out, "Flows: what did the background traffic get?", caption);
        out.push_str(
            "<div class=\"scroll\"><table class=\"stack\" style=\"--columns:4\"><thead><tr><th>flow</th>\
             <th>received</th><th>rate</th><th>lost</th><th>sent again</th></tr></thead><tbody>",
        );
        let several = self.runs.len() > 1;
        for run in self.runs {
            let suffix = if several { format!(", {}", run.label.to_lowercase()) } else { String::new() };
            run.manifest.flows.iter().for_each(|flow| row(out, flow, &suffix));
        }
        out.push_str("</tbody></table></div>");
        sections::close(out);
    }
}

fn row(out: &mut String, flow: &PlainFlow, suffix: &str) {
    let how = flow.congestion.as_ref().map_or(String::new(), |control| format!(" ({control})"));
    let label = format!("{}: {} → {}, {}{how}{suffix}", flow.name, flow.from, flow.to, flow.transport.to_uppercase());
    let _ = write!(out, "<tr><th>{}</th>", escape(&label));
    if let Some(failure) = &flow.failure {
        let _ = write!(out, "<td colspan=\"4\">{}</td></tr>", escape(failure));
        return;
    }
    let udp = flow.transport == "udp";
    let count = |shown: bool, value: u64| if shown { Quantity::Count.text(value as f64) } else { "-".into() };
    let cells = [
        Quantity::Bytes.text(flow.received_bytes as f64),
        Quantity::Rate.text(flow.bit_s),
        count(udp, flow.lost),
        count(!udp, flow.retransmitted),
    ];
    cells.iter().for_each(|cell| {
        let _ = write!(out, "<td>{}</td>", escape(cell));
    });
    out.push_str("</tr>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_names_transport_control_and_failure() {
        let text = |flow: &PlainFlow| {
            let mut out = String::new();
            row(&mut out, flow, "");
            out
        };
        let tcp = PlainFlow {
            name: "bulk".into(),
            transport: "tcp".into(),
            congestion: Some("hybla".into()),
            received_bytes: 5_000_000,
            bit_s: 2e6,
            retransmitted: 7,
            ..PlainFlow::default()
        };
        let shown = text(&tcp);
        assert!(shown.contains("TCP (hybla)") && shown.contains("5 MB") && shown.contains("2 Mbit/s"), "{shown}");
        assert!(shown.contains("<td>-</td><td>7</td>"), "{shown}");
        let failed = text(&PlainFlow { failure: Some("no result".into()), ..tcp });
        assert!(failed.contains("no result") && !failed.contains("5 MB"), "{failed}");
    }
}
