//! The table of retention times.

use super::svg::escape;
use crate::format::Quantity;
use crate::phase::PhaseUse;
use crate::retention::{RetentionFacts, RetentionTimes};
use std::fmt::Write as _;

/// Writes the table of retention times, where a phase has any.
pub fn retention(out: &mut String, phases: &[PhaseUse]) {
    if phases.iter().all(|phase| phase.facts.retention.is_empty()) {
        return;
    }
    out.push_str(
        "<p class=\"caption\">How long relays kept bundles: from the last byte in to the first, or last, byte out, as the \
         links saw it: p50, p95, p99, largest. Net times lack the median of a relay in the same host that does no \
         work.</p><div class=\"scroll\"><table class=\"stack\" style=\"--columns:6\"><thead><tr><th>phase, relay</th>\
         <th>bundles</th><th>first byte out</th><th>last byte out</th><th>zero-work relay</th><th>first out, net</th>\
         <th>last out, net</th></tr></thead><tbody>",
    );
    for (phase, relay) in phases.iter().flat_map(|phase| phase.facts.retention.iter().map(move |relay| (phase, relay)))
    {
        row(out, &phase.facts.name, relay);
    }
    out.push_str("</tbody></table></div>");
}

fn row(out: &mut String, phase: &str, relay: &RetentionFacts) {
    let _ = write!(out, "<tr><th>{}</th>", escape(&format!("{phase}: {}", relay.relay)));
    if let Some(reason) = &relay.unavailable {
        let _ = write!(out, "<td colspan=\"6\">{}</td></tr>", escape(&format!("n/a: {reason}")));
        return;
    }
    let transport = |times: &crate::retention::ZeroWorkTimes| {
        format!("{} ({}, {} bundles)", seconds(times.p50_s), times.transport.to_uppercase(), times.bundles)
    };
    let zero_work: Vec<String> = relay.zero_work.iter().map(transport).collect();
    let cells = [
        bundles(relay),
        quantiles(relay.first_out_s),
        quantiles(relay.last_out_s),
        if zero_work.is_empty() { "n/a".into() } else { zero_work.join(", ") },
        quantiles(relay.net_first_out_s),
        quantiles(relay.net_last_out_s),
    ];
    cells.iter().for_each(|cell| {
        let _ = write!(out, "<td>{}</td>", escape(cell));
    });
    out.push_str("</tr>");
}

/// Describes how many bundles were found, and why others were not.
fn bundles(relay: &RetentionFacts) -> String {
    let count = |value: u64| Quantity::Count.text(value as f64);
    let mut text = count(relay.bundles);
    let lacks = [
        (relay.missing, "did not leave"),
        (relay.overtaking, "overtook others"),
        (relay.frames_missed, "frames missed by the probe"),
        (relay.enciphered, "conversations enciphered"),
        (relay.unreadable, "gaps or bundles unreadable"),
    ];
    for (value, what) in lacks.into_iter().filter(|(value, _)| *value > 0) {
        let _ = write!(text, "; {} {what}", count(value));
    }
    text
}

fn seconds(s: f64) -> String {
    Quantity::Seconds.text(s)
}

fn quantiles(times: Option<RetentionTimes>) -> String {
    let Some(RetentionTimes { p50, p95, p99, max }) = times else { return "n/a".into() };
    [p50, p95, p99, max].map(seconds).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::PhaseFacts;
    use crate::retention::{BundleTimes, ZeroWorkTimes};

    fn page(relay: RetentionFacts) -> String {
        let facts = PhaseFacts { name: "relay".into(), retention: vec![relay], ..PhaseFacts::default() };
        let mut out = String::new();
        retention(&mut out, &PhaseUse::all(&[facts], &[], &[]));
        out
    }

    #[test]
    fn raw_and_net_times_stand_side_by_side() {
        let zero_work = ZeroWorkTimes { transport: "udp".into(), bundles: 100, p50_s: 12e-6, p99_s: 40e-6 };
        let mut relay = RetentionFacts {
            relay: "b".into(),
            bundles: 1,
            missing: 3,
            zero_work: vec![zero_work],
            ..Default::default()
        };
        relay.set_times(&[BundleTimes { first_s: 212e-6, last_s: 312e-6, floor_s: Some(12e-6) }]);
        let shown = page(relay);
        for part in ["relay: b", "1; 3 did not leave", "212 µs, 212 µs", "12 µs (UDP, 100 bundles)", "200 µs", "300 µs"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn reason_replaces_times() {
        let unavailable = Some("its conversations are enciphered (TLS)".into());
        let shown = page(RetentionFacts { unavailable, ..RetentionFacts::default() });
        assert!(shown.contains("n/a: its conversations are enciphered (TLS)"), "{shown}");
        let mut none = String::new();
        retention(&mut none, &PhaseUse::all(&[PhaseFacts::default()], &[], &[]));
        assert_eq!(none, "");
    }
}
