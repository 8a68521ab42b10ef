//! `farlink bundle decode` for BPv6 (RFC 5050), in the same words as for BPv7 where the meaning is the same.

use crate::bundle::{flag_names, hex, list, preview, time_text};
use farlink_base::{Duration, Malformed, format_duration};
use farlink_bundle::v6::{
    self, BlockView, BundleView, Meaning, ParsedRecord, block_flags, custody_reason, flags, kind,
};
use serde_json::{Map, Value, json};

const BUNDLE_FLAGS: [(u64, &str); 11] = [
    (flags::FRAGMENT, "fragment"),
    (flags::ADMIN, "administrative record"),
    (flags::NO_FRAGMENT, "must not be fragmented"),
    (flags::CUSTODY, "custody requested"),
    (flags::SINGLETON, "destination is a singleton"),
    (flags::APP_ACK, "application acknowledgment requested"),
    (flags::REPORT_RECEPTION, "report reception"),
    (flags::REPORT_CUSTODY, "report custody acceptance"),
    (flags::REPORT_FORWARDING, "report forwarding"),
    (flags::REPORT_DELIVERY, "report delivery"),
    (flags::REPORT_DELETION, "report deletion"),
];
const BLOCK_FLAGS: [(u64, &str); 7] = [
    (block_flags::REPLICATE, "replicate in every fragment"),
    (block_flags::REPORT, "report if not understood"),
    (block_flags::DELETE_BUNDLE, "delete bundle if not understood"),
    (block_flags::LAST, "last block"),
    (block_flags::DISCARD, "discard block if not understood"),
    (block_flags::UNPROCESSED, "forwarded without being processed"),
    (block_flags::REFERENCES, "refers to endpoint IDs"),
];

/// Name of a block type: the IANA registry, and the private codes that this program knows.
fn block_name(code: u8) -> &'static str {
    match code {
        kind::PAYLOAD => "payload",
        kind::AUTHENTICATION => "bundle authentication",
        kind::INTEGRITY => "payload integrity",
        kind::CONFIDENTIALITY => "payload confidentiality",
        kind::PREVIOUS_HOP => "previous hop",
        kind::METADATA => "metadata",
        kind::EXTENSION_SECURITY => "extension security",
        kind::CUSTODY => "custody transfer enhancement",
        kind::SERVICE => "extended class of service",
        kind::AGE => "bundle age",
        kind::PERMITS => "spray-and-wait permits",
        kind::LABELS => "policy labels",
        kind::UNVOUCHED => "unvouched",
        192..=255 => "private or experimental",
        _ => "unknown",
    }
}

/// Administrative record in the payload, if the bundle has one.
fn record(bundle: &BundleView) -> Option<Result<ParsedRecord, Malformed>> {
    let bytes = bundle.payload.to_bytes().unwrap_or_default();
    bundle.primary.has(flags::ADMIN).then(|| v6::record(&bytes))
}

/// A block's content as text and as JSON.
fn content(block: &BlockView) -> (String, Value) {
    match &block.meaning {
        Meaning::PreviousHop(node) => (v6::text(node), json!({ "node": v6::text(node) })),
        Meaning::Age(us) => (format!("{us} µs"), json!({ "age_us": us })),
        Meaning::Service(service) => (
            format!("ordinal {}, flags {:#x}, label {}", service.ordinal, service.flags, service.label),
            json!({ "ordinal": service.ordinal, "flags": service.flags, "label": service.label }),
        ),
        Meaning::Labels([router, control]) => {
            (format!("router {router}, control {control}"), json!({ "router": router, "control": control }))
        }
        Meaning::Custody { id, custodian } => (
            format!("number {id} of {}", v6::text(custodian)),
            json!({ "number": id, "custodian": v6::text(custodian) }),
        ),
        Meaning::Unvouched => ("nobody vouches for it".into(), json!({ "unvouched": true })),
        Meaning::Unknown => (hex(&block.data, 32), json!({ "data": hex(&block.data, usize::MAX) })),
    }
}

fn references(block: &BlockView) -> Vec<String> {
    block.references.iter().map(v6::text).collect()
}

/// One bundle as a JSON document; `skipped` bytes precede it in the file.
pub(crate) fn document(bundle: &BundleView, skipped: usize) -> Value {
    let primary = &bundle.primary;
    let block = |kind: u8, bits: u64, offset: u64, length: u64| {
        json!({
            "type": kind, "name": block_name(kind), "flags": bits, "flag_names": flag_names(bits, &BLOCK_FLAGS),
            "offset": offset + skipped as u64, "length": length,
        })
    };
    let extension = |view: &BlockView| {
        let mut value = block(view.kind, view.flags, view.offset, view.len);
        value["content"] = content(view).1;
        if view.flags & block_flags::REFERENCES != 0 {
            value["references"] = json!(references(view));
        }
        value
    };
    let bytes = bundle.payload.to_bytes().unwrap_or_default();
    let mut payload = block(kind::PAYLOAD, bundle.payload_flags, bundle.payload_offset, bundle.payload_block_len);
    payload["content"] = json!({ "length": bytes.len(), "preview": preview(&bytes) });
    // BPv6 allows blocks behind the payload: keep the order on the wire.
    let blocks = bundle.before.iter().map(extension).chain([payload]).collect::<Vec<_>>();
    let blocks: Vec<Value> = blocks.into_iter().chain(bundle.after.iter().map(extension)).collect();
    json!({
        "accepted": true, "version": 6, "id": bundle.id().to_string(),
        "source": v6::text(&primary.source), "destination": v6::text(&primary.destination),
        "report_to": v6::text(&primary.report_to), "custodian": v6::text(&primary.custodian),
        "creation": { "time": time_text(primary.creation.time), "dtn_ms": primary.creation.time.as_millis(),
            "sequence": primary.creation.sequence },
        // BPv6 counts lifetimes in seconds; the document has the unit of BPv7.
        "lifetime_ms": primary.lifetime_s.saturating_mul(1000), "flags": primary.flags,
        "flag_names": names(primary.flags), "class": primary.priority().number(),
        "dictionary_bytes": primary.dictionary_len,
        "fragment": primary.fragment.map(|f| json!({ "offset": f.offset, "total": f.total })),
        "bytes": bundle.len, "payload_bytes": bytes.len(), "blocks": blocks,
        "administrative_record": record(bundle).map_or(Value::Null, |record| match record {
            Ok(record) => record_document(&record),
            Err(error) => json!({ "error": error.to_string() }),
        }),
    })
}

/// Names of the bundle's flags; the class of service is shown separately.
fn names(bits: u64) -> Vec<String> {
    flag_names(bits & !flags::PRIORITY, &BUNDLE_FLAGS)
}

fn record_document(record: &ParsedRecord) -> Value {
    match record {
        ParsedRecord::Report(report) => {
            // Items that are not asserted have no time.
            let asserted = report.items().into_iter().filter(|(_, item)| item.asserted);
            let items: Map<String, Value> =
                asserted.map(|(name, item)| (name.to_string(), json!({ "time": item.time.map(time_text) }))).collect();
            json!({ "type": 1, "asserted": items, "reason": report.reason, "reason_text": report.reason_text(),
                "subject": report.subject.to_string() })
        }
        ParsedRecord::Custody(signal) => json!({ "type": 2, "succeeded": signal.succeeded, "reason": signal.reason,
            "reason_text": custody_reason(signal.reason), "time": time_text(signal.time),
            "subject": signal.subject.to_string() }),
        ParsedRecord::Aggregate(signal) => json!({ "type": 4, "succeeded": signal.succeeded, "reason": signal.reason,
            "reason_text": custody_reason(signal.reason),
            "numbers": signal.fills.iter().map(|fill| [fill.first, fill.last]).collect::<Vec<_>>() }),
        ParsedRecord::Signal(content) => json!({ "type": 15, "content": hex(content, usize::MAX) }),
        ParsedRecord::Other { kind, content } => json!({ "type": kind, "content": hex(content, usize::MAX) }),
    }
}

/// One bundle as text; `skipped` bytes precede it in the file.
pub(crate) fn explain(bundle: &BundleView, skipped: usize) -> String {
    let primary = &bundle.primary;
    let mut out = format!("BPv6 bundle, {} bytes: {}\n", bundle.len, bundle.id());
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let title =
        |offset: u64, length: u64, name: &str| format!("\nbyte {}: {name}, {length} bytes", offset + skipped as u64);
    line(title(0, bundle.primary_len, "primary block"));
    line(format!("  source       {}", v6::text(&primary.source)));
    line(format!("  destination  {}", v6::text(&primary.destination)));
    line(format!("  report to    {}", v6::text(&primary.report_to)));
    line(format!("  custodian    {}", v6::text(&primary.custodian)));
    line(format!("  created      {}, sequence {}", time_text(primary.creation.time), primary.creation.sequence));
    line(format!("  lifetime     {}", format_duration(Duration::from_secs(primary.lifetime_s))));
    line(format!("  class        {}", ["bulk", "normal", "expedited"][usize::from(primary.priority().number())]));
    line(format!("  flags        {}", list(names(primary.flags))));
    line(match primary.dictionary_len {
        0 => "  endpoints    as numbers (RFC 6260)".into(),
        bytes => format!("  endpoints    in a dictionary of {bytes} bytes"),
    });
    if let Some(fragment) = primary.fragment {
        line(format!("  fragment     from byte {} of {}", fragment.offset, fragment.total));
    }
    let extension = |view: &BlockView, line: &mut dyn FnMut(String)| {
        let name = format!("{} (type {})", block_name(view.kind), view.kind);
        line(title(view.offset, view.len, &name));
        line(format!("  content      {}", content(view).0));
        line(format!("  flags        {}", list(flag_names(view.flags, &BLOCK_FLAGS))));
        if view.flags & block_flags::REFERENCES != 0 {
            line(format!("  refers to    {}", list(references(view))));
        }
    };
    bundle.before.iter().for_each(|view| extension(view, &mut line));
    let bytes = bundle.payload.to_bytes().unwrap_or_default();
    line(title(bundle.payload_offset, bundle.payload_block_len, "payload (type 1)"));
    line(format!("  content      {} bytes: {}", bytes.len(), preview(&bytes)));
    line(format!("  flags        {}", list(flag_names(bundle.payload_flags, &BLOCK_FLAGS))));
    match record(bundle) {
        None => {}
        Some(Err(error)) => line(format!("  record       not valid: {error}")),
        Some(Ok(record)) => explain_record(&record, &mut line),
    }
    bundle.after.iter().for_each(|view| extension(view, &mut line));
    out
}

fn explain_record(record: &ParsedRecord, line: &mut dyn FnMut(String)) {
    let verdict = |succeeded| if succeeded { "custody taken" } else { "custody refused" };
    match record {
        ParsedRecord::Report(report) => {
            line(format!("  record       status report about {}", report.subject));
            for (name, item) in report.items().into_iter().filter(|(_, item)| item.asserted) {
                line(format!("  {name:<12} {}", item.time.map_or("no time given".into(), time_text)));
            }
            line(format!("  reason       {} ({})", report.reason, report.reason_text()));
        }
        ParsedRecord::Custody(signal) => {
            line(format!("  record       custody signal about {}", signal.subject));
            line(format!("  signal       {} at {}", verdict(signal.succeeded), time_text(signal.time)));
            line(format!("  reason       {} ({})", signal.reason, custody_reason(signal.reason)));
        }
        ParsedRecord::Aggregate(signal) => {
            line("  record       aggregate custody signal".into());
            line(format!("  signal       {}", verdict(signal.succeeded)));
            line(format!("  reason       {} ({})", signal.reason, custody_reason(signal.reason)));
            let ranges = signal.fills.iter().map(|fill| match fill.first == fill.last {
                true => fill.first.to_string(),
                false => format!("{} to {}", fill.first, fill.last),
            });
            line(format!("  numbers      {}", list(ranges.collect())));
        }
        ParsedRecord::Signal(content) => line(format!("  record       policy signal: {}", hex(content, 32))),
        ParsedRecord::Other { kind, content } => line(format!("  record       type {kind}: {}", hex(content, 32))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Payload;
    use farlink_bundle::Profile;

    /// Bundles of `tests/vectors`, with their names.
    fn vectors() -> Vec<(String, BundleView)> {
        let text = include_str!("../../tests/vectors/bpv6_bundles.json");
        let file: Value = serde_json::from_str(text).unwrap();
        let read = |case: &Value| {
            let wire = crate::bundle::unhex(case["hex"].as_str().unwrap().as_bytes()).unwrap();
            (case["id"].as_str().unwrap().into(), v6::decode(&Payload::from(wire), Profile::Strict).unwrap())
        };
        file["valid"].as_array().unwrap().iter().map(read).collect()
    }

    #[test]
    fn every_block_is_placed_and_explained() {
        for (id, bundle) in vectors() {
            // Three bytes skipped: every offset moves by as many.
            let document = document(&bundle, 3);
            let blocks = document["blocks"].as_array().unwrap();
            let end = |block: &Value| block["offset"].as_u64().unwrap() + block["length"].as_u64().unwrap();
            assert_eq!(blocks[0]["offset"], bundle.primary_len + 3, "{id}");
            assert!(blocks.windows(2).all(|pair| end(&pair[0]) == pair[1]["offset"].as_u64().unwrap()), "{id}");
            assert_eq!(end(blocks.last().unwrap()), bundle.len + 3, "{id}");
            let text = explain(&bundle, 0);
            for words in match id.as_str() {
                "cbhe_custody" => &["custody requested", "number 1 of ipn:1.0", "as numbers", "\"hello\""][..],
                "dictionary" => &["source       dtn://src/app", "in a dictionary of 29 bytes", "class        normal"],
                "fragment" => &["from byte 5 of 10", "\"56789\""],
                "status_report" => {
                    &["status report about ipn:1.1-799000000000-1", "delivered    2025", "(no additional"]
                }
                "acs_1_2_4" => &["aggregate custody signal", "custody taken", "numbers      1 to 2, 4"],
                _ => &["numbers      0 to 255, 512 to 782"],
            } {
                assert!(text.contains(words), "{id}: {words}\n{text}");
            }
        }
    }

    #[test]
    fn custody_and_unknown_records_are_shown() {
        let mut said = Vec::new();
        let text = |bytes: &[u8]| v6::record(bytes).unwrap();
        let signal = text(b"\x20\x03\x82\xfd\xbc\x90\x00\x00\x82\xfd\xbc\x90\x00\x04\x07ipn:1.1");
        explain_record(&signal, &mut |line| said.push(line));
        let said = said.join("\n");
        assert!(said.contains("custody refused at 20") && said.contains("3 (redundant reception)"), "{said}");
        assert_eq!(record_document(&signal)["subject"].as_str().unwrap().rsplit('-').next(), Some("4"));
        assert_eq!(record_document(&text(&[0x30, 7])), json!({ "type": 3, "content": "07" }));
    }
}
