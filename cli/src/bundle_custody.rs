//! Custody and compressed reporting in BPv7 (CCSDS 734.6-O-1), as `farlink bundle decode` shows blocks and records.
//! Types are those of the standard; a node can be configured to use others.

use farlink_bundle::v7::CustodyCodes;
use farlink_bundle::v7::custody::{Counter, ReportingBlock, Sequence, SignalEntry, TransferBlock, asks, read_signal};
use serde_json::{Value, json};

const ASKS: [(u64, &str); 6] = [
    (asks::RECEPTION, "reception"),
    (asks::FORWARDING, "forwarding"),
    (asks::DELIVERY, "delivery"),
    (asks::DELETION, "deletion"),
    (asks::ACCEPTED, "custody accepted"),
    (asks::REFUSED, "custody refused"),
];

/// Name of a custody or reporting block; `None` for other types and for data that does not fit.
pub fn name(kind: u64, data: &[u8]) -> Option<&'static str> {
    content(kind, data).map(|_| {
        if kind == CustodyCodes::default().transfer_block { "custody transfer" } else { "compressed reporting" }
    })
}

/// Content of a custody or reporting block as text and as JSON; `None` if the type is another or the data does not fit.
pub fn content(kind: u64, data: &[u8]) -> Option<(String, Value)> {
    let codes = CustodyCodes::default();
    if kind == codes.transfer_block {
        let TransferBlock { number, sequence, custodian } = TransferBlock::decode(data)?;
        let text = format!("number {number} of {custodian}, by {}", counter_text(sequence));
        return Some((text, json!({ "number": number, "sequence": sequence, "custodian": custodian.to_string() })));
    }
    if kind != codes.reporting_block {
        return None;
    }
    let ReportingBlock { number, sequence, asks, source, report_to } = ReportingBlock::decode(data)?;
    let wanted = crate::bundle::flag_names(asks, &ASKS);
    let mut text =
        format!("number {number}, by {}; requests {}", counter_text(sequence), crate::bundle::list(wanted.clone()));
    if let Some(source) = &source {
        text += &format!("; inserted by {source}");
    }
    if let Some(to) = &report_to {
        text += &format!("; reports to {to}");
    }
    let name = |endpoint: Option<farlink_bundle::EndpointId>| endpoint.map(|endpoint| endpoint.to_string());
    let document = json!({ "number": number, "sequence": sequence, "asks": asks, "asks_names": wanted,
        "source": name(source), "report_to": name(report_to) });
    Some((text, document))
}

fn counter_text(sequence: u64) -> String {
    if sequence == 0 { "its counter for the destination".into() } else { format!("its counter {sequence}") }
}

/// Meaning of a status code in a custody or reporting signal.
fn meaning(custody: bool, what: i64) -> &'static str {
    match (custody, what) {
        (true, 1) => "custody taken",
        (true, -1) => "custody refused",
        (false, 0) => "received",
        (false, 1) => "forwarded",
        (false, 2) => "delivered",
        (false, 3) => "deleted",
        (false, 4) => "custody accepted",
        (false, 5) => "custody refused",
        // The standard leaves other codes open.
        _ => "reserved",
    }
}

fn numbers(sequence: &Sequence) -> String {
    let run = |run: &farlink_bundle::v7::custody::NumberRun| match run.first == run.last {
        true => run.first.to_string(),
        false => format!("{} to {}", run.first, run.last),
    };
    // A signal may hold thousands of runs: 32 fit a few lines.
    let mut runs: Vec<String> = sequence.runs.iter().take(32).map(run).collect();
    if sequence.runs.len() > 32 {
        runs.push("…".into());
    }
    let counter = match &sequence.counter {
        Counter::Number(number) => format!("counter {number}"),
        Counter::To(destination) => format!("the counter for {destination}"),
    };
    let source = sequence.source.as_ref().map_or_else(String::new, |source| format!(" of {source}"));
    format!("{} of {counter}{source}", runs.join(", "))
}

/// A compressed signal as lines of text and as JSON; `None` if the record is another or not valid.
pub fn record(kind: u64, content: &[u8]) -> Option<(Vec<String>, Value)> {
    let codes = CustodyCodes::default();
    let custody = kind == codes.custody_record;
    if !custody && kind != codes.reporting_record {
        return None;
    }
    let said = read_signal(content).ok()?;
    let title = if custody { "compressed custody signal" } else { "compressed reporting signal" };
    let mut lines = vec![format!("  record       {title}")];
    let mut items = Vec::new();
    for SignalEntry { code: what, sequences: of } in &said {
        let text = meaning(custody, *what);
        lines.extend(of.iter().map(|sequence| format!("  {text:<16} {}", numbers(sequence))));
        let sequences: Vec<String> = of.iter().map(numbers).collect();
        items.push(json!({ "code": what, "meaning": text, "numbers": sequences }));
    }
    Some((lines, json!({ "type": kind, "name": title, "said": items })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::unhex;

    fn hex(text: &str) -> Vec<u8> {
        unhex(text.as_bytes()).unwrap()
    }

    #[test]
    fn custody_blocks_show_counter_and_requests() {
        let (text, _) = content(13, &hex("8305018202820100")).unwrap();
        assert_eq!(text, "number 5 of ipn:1.0, by its counter 1");
        assert_eq!(name(13, &hex("8305018202820100")), Some("custody transfer"));
        let (text, document) = content(14, &hex("8505010582028201008202820900")).unwrap();
        assert_eq!(
            text,
            "number 5, by its counter 1; requests reception, delivery; inserted by ipn:1.0; reports to ipn:9.0"
        );
        assert_eq!(document["asks_names"], json!(["reception", "delivery"]));
        assert_eq!((name(13, &[0x02]), name(14, &[0xff]), name(15, &hex("8105"))), (None, None, None), "other blocks");
    }

    #[test]
    fn signals_list_numbers_by_status() {
        let (lines, document) = record(13, &hex("a2018183010583020201208183010701")).unwrap();
        assert_eq!(lines[1..], ["  custody taken    5 to 6, 9 of counter 1", "  custody refused  7 of counter 1"]);
        assert_eq!(document["said"][1]["code"], -1);
        let (lines, _) = record(14, &hex("a2008183010504028183010501")).unwrap();
        assert_eq!(lines[1..], ["  received         5 to 8 of counter 1", "  delivered        5 of counter 1"]);
        assert!(record(13, &[0x80]).is_none() && record(12, &hex("a0")).is_none());
    }
}
