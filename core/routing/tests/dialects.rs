//! Properties of the dialects: any text is parsed or refused without panic, and emitted plans parse again.

use farlink_base::{DataRate, DtnTime, Duration};
use farlink_routing::contact_plan::{check, emit_farlink, emit_ion, gantt, parse};
use farlink_routing::{Contact, ContactPlan, NodeId, PlanTime};
use proptest::prelude::*;

/// Words of both dialects, whole and broken.
fn word() -> impl Strategy<Value = String> {
    let words = "contact epoch node a range @ 1 2 3 ipn:1.0 earth +0..+3600 +0.. .. ..+5 +0 +3600 2026-11-20T09:00:00Z \
                 2026/11/20-09:00:00 2026-11-20T09:00:00Z..+30min rate delay link= link=ka both confidence Mbit/s B/s \
                 ms s 0.5 -1 99999999999999999999 18446744073709551615 1e300 # µ ...";
    prop_oneof![
        9 => prop::sample::select(words.split_whitespace().map(str::to_string).collect::<Vec<_>>()),
        1 => ".{0,8}",
    ]
}

fn contact(unit_ns: u64, rate_unit: u64) -> impl Strategy<Value = Contact> {
    let times = (0u64..100_000, 1u64..100_000, 0u64..5000);
    (1u64..9, 1u64..9, times, 1u64..1_000_000, prop::option::of("[a-z]{1,6}"), 0u32..=4).prop_map(
        move |(from, to, (start, length, delay), rate, link, confidence)| Contact {
            from: NodeId(from),
            to: NodeId(to),
            link,
            start: PlanTime(start * unit_ns),
            end: PlanTime((start + length) * unit_ns),
            rate: DataRate(rate * rate_unit),
            one_way_delay: Duration::from_nanos(delay * unit_ns),
            confidence: f64::from(confidence) / 4.0,
        },
    )
}

fn plan(unit_ns: u64, rate_unit: u64) -> impl Strategy<Value = ContactPlan> {
    let contacts = prop::collection::vec(contact(unit_ns, rate_unit), 0..12);
    (contacts, prop::option::of(800_000_000u64..900_000_000))
        .prop_map(|(contacts, epoch_s)| ContactPlan { epoch: epoch_s.map(|s| DtnTime(s * 1000)), contacts })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_read_or_refused(lines in prop::collection::vec(prop::collection::vec(word(), 0..12), 0..6)) {
        let text = lines.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join("\n");
        match parse(&text) {
            Ok(parsed) => {
                prop_assert_eq!(parsed.lines.len(), parsed.plan.contacts.len());
                check(&parsed.plan);
                gantt(&parsed.plan, &parsed.names, 80);
                let again = parse(&emit_farlink(&parsed.plan, &parsed.names));
                prop_assert_eq!(again.map(|p| p.plan.contacts), Ok(parsed.plan.contacts));
            }
            Err(error) => prop_assert!(!error.hint.is_empty() && error.line as usize <= lines.len()),
        }
    }

    #[test]
    fn ours_reads_back_to_the_nanosecond(plan in plan(1_234_567, 1)) {
        let text = emit_farlink(&plan, &[("earth".into(), NodeId(1))]);
        prop_assert_eq!(parse(&text).map(|p| p.plan), Ok(plan), "{}", text);
    }

    #[test]
    fn ions_reads_back_to_the_second(mut plan in plan(1_000_000_000, 8)) {
        // ION names no links, and has one range per pair and time.
        let delay = |c: &Contact| Duration::from_secs(c.from.0 * c.to.0);
        plan.contacts.iter_mut().for_each(|c| (c.link, c.one_way_delay) = (None, delay(c)));
        // ION's contacts of a node with itself are skipped.
        plan.contacts.retain(|c| c.from != c.to);
        if plan.contacts.is_empty() {
            plan.epoch = None;
        }
        let (text, warnings) = emit_ion(&plan);
        prop_assert!(warnings.is_empty());
        prop_assert_eq!(parse(&text).map(|p| p.plan), Ok(plan), "{}", text);
    }
}

#[test]
fn reference_plans_parse_without_findings() {
    let page = include_str!("../../../docs/reference/contact-plan.md");
    let blocks: Vec<&str> = page.split("```plan\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let parsed = parse(block).unwrap_or_else(|error| panic!("{error}"));
        assert!(!parsed.plan.contacts.is_empty() && parsed.warnings.is_empty());
        assert!(check(&parsed.plan).iter().all(|finding| !finding.error));
    }
}
