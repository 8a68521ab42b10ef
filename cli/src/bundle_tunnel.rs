//! Bundle-in-bundle encapsulation (draft-ietf-dtn-bibect), as `farlink bundle decode` shows it, with the record types
//! of the drafts and those of ION.

use farlink_base::{Accel, DtnTime, Payload};
use farlink_bundle::v7::{Carried, TunnelCodes, TunnelSignal};
use farlink_bundle::{Profile, decode, v6};
use serde_json::{Value, json};

/// Record types: of the drafts and HDTN, and of ION.
const CODES: [TunnelCodes; 2] = [TunnelCodes { bundle: 3, signal: 4 }, TunnelCodes { bundle: 7, signal: 8 }];

/// A BIBE record as lines of text and as JSON; `None` if the type is another or the record is not valid. `payload` is
/// the whole record.
pub fn record(payload: &Payload, kind: u64, content: &[u8]) -> Option<(Vec<String>, Value)> {
    let codes = CODES.iter().find(|codes| codes.bundle == kind || codes.signal == kind)?;
    if codes.bundle == kind { carried(payload, kind) } else { signal(kind, content) }
}

fn carried(payload: &Payload, kind: u64) -> Option<(Vec<String>, Value)> {
    let Carried { number, due, bundle } = Carried::read(payload, kind).ok()??;
    // Only one level is explained: a bundle inside the inner one can be decoded once the inner one is cut out.
    let (what, id, destination) = match inside(&bundle) {
        Ok((id, destination)) => (format!("{id}, for {destination}"), Some(id), Some(destination)),
        Err(why) => (format!("not a bundle: {why}"), None, None),
    };
    let wish = match (number, due) {
        (0, _) => "no signal requested".to_string(),
        (_, 0) => format!("transmission {number}"),
        (_, due) => format!("transmission {number}, retransmitted at {}", crate::bundle::time_text(time(due))),
    };
    // The inner bundle is the last item of the record.
    let at = payload.len() - bundle.len();
    let lines = vec![
        "  record       encapsulated bundle (BIBE)".to_string(),
        format!("  custody      {wish}"),
        format!("  contains     {} bytes from byte {at} of the payload: {what}", bundle.len()),
    ];
    let document = json!({ "type": kind, "name": "bundle in a bundle", "transmission": number, "due": due,
        "inside": { "offset": at, "bytes": bundle.len(), "id": id, "destination": destination } });
    Some((lines, document))
}

/// Reads a time in DTN ms, as the drafts have it, or in Unix seconds, as ION does.
fn time(due: u64) -> DtnTime {
    const UNIX_TO_DTN_S: u64 = 946_684_800;
    // Unix seconds of this era are below 10^10; DTN milliseconds have been above that since April 2000.
    match due.checked_sub(UNIX_TO_DTN_S).filter(|since| *since < 10_000_000_000) {
        Some(since) => DtnTime(since * 1000),
        None => DtnTime(due),
    }
}

/// Identity and destination of the inner bundle.
fn inside(rope: &Payload) -> Result<(String, String), farlink_base::Malformed> {
    if rope.reader().read_u8() == Some(v6::VERSION) {
        let (meta, _) = v6::read(rope, Profile::Permissive)?;
        return Ok((meta.identity().to_string(), meta.destination.to_string()));
    }
    let bundle = decode(rope, Profile::Permissive, &Accel::default())?;
    Ok((bundle.id().to_string(), bundle.primary.destination.to_string()))
}

fn signal(kind: u64, content: &[u8]) -> Option<(Vec<String>, Value)> {
    let TunnelSignal { disposition, runs } = TunnelSignal::read(content).ok()?;
    let meaning = match disposition {
        0 => "custody accepted",
        1 => "refused, no reason given",
        3 => "redundant reception",
        4 => "refused: depleted storage",
        5 => "refused: destination unintelligible",
        6 => "refused: no known route",
        7 => "refused: no timely contact",
        8 => "refused: block unintelligible",
        _ => "reserved",
    };
    let run = |first: u64, last: u64| if first == last { first.to_string() } else { format!("{first} to {last}") };
    let numbers: Vec<String> = runs.iter().map(|run_| run(run_.first, run_.last)).collect();
    let mut shown = numbers.iter().take(32).cloned().collect::<Vec<_>>().join(", ");
    if numbers.len() > 32 {
        shown.push_str(", …");
    }
    let lines = vec![
        "  record       BIBE custody signal".to_string(),
        format!("  disposition  {meaning} ({disposition})"),
        format!("  about        transmissions {shown}"),
    ];
    let document = json!({ "type": kind, "name": "custody signal of bundles in bundles", "disposition": disposition,
        "meaning": meaning, "numbers": numbers });
    Some((lines, document))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_bundle::{Bundle, CreationTimestamp, EndpointId};

    fn shown(payload: &Payload) -> (Vec<String>, Value) {
        let bytes = payload.to_bytes().unwrap();
        let kind = u64::from(bytes[1]);
        record(payload, kind, &bytes[2..]).unwrap()
    }

    #[test]
    fn bibe_record_names_inner_bundle() {
        let creation = CreationTimestamp { time: DtnTime(5), sequence: 1 };
        let bundle =
            Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(9, 1), creation).payload(Payload::from(&b"x"[..]));
        let rope = bundle.build().encode(&Accel::default()).into_payload();
        // The record types of the drafts and of ION.
        for kind in [3, 7] {
            let carried = Carried { number: 12, due: 0, bundle: rope.clone() };
            let (lines, document) = shown(&carried.encode(kind));
            assert_eq!(lines[1], "  custody      transmission 12");
            assert!(lines[2].contains("ipn:1.1") && lines[2].ends_with("for ipn:9.1"), "{}", lines[2]);
            assert_eq!((document["transmission"].as_u64(), document["inside"]["offset"].as_u64()), (Some(12), Some(7)));
        }
        let broken = Carried { number: 0, due: 0, bundle: Payload::from(&b"?"[..]) };
        let (lines, document) = shown(&broken.encode(3));
        assert!(lines[1].ends_with("no signal requested") && lines[2].contains("not a bundle"), "{lines:?}");
        assert!(document["inside"]["id"].is_null());
    }

    #[test]
    fn bibe_signal_lists_transmissions() {
        let content = [0x82, 4, 0x82, 0x82, 5, 2, 0x82, 9, 1];
        let payload = Payload::from([&[0x82, 4][..], &content].concat());
        let (lines, document) = record(&payload, 4, &content).unwrap();
        assert_eq!(
            lines[1..],
            ["  disposition  refused: depleted storage (4)", "  about        transmissions 5 to 6, 9"]
        );
        assert_eq!(document["numbers"], json!(["5 to 6", "9"]));
        assert!(record(&payload, 5, &content).is_none() && record(&payload, 8, &[0x80]).is_none());
    }
}
