//! Table of events: name, log text, meaning and fields.

use crate::field::EventField;
use crate::names::EventNames;
use crate::read::EventLine;
use crate::write::FieldWriter;
use farlink_base::Event;
use std::fmt::Write;

/// Name and description of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventInfo {
    /// Name in event files and tables.
    pub name: &'static str,
    /// First words of its log line.
    pub sentence: &'static str,
    /// Meaning, for reference pages.
    pub help: &'static str,
}

/// Defines the table of events. `a / b` are the node and the service of an endpoint, written as one field `a`; `(x)`
/// marks a variant that holds a whole struct.
macro_rules! schema {
    ($( $variant:ident $name:literal $sentence:literal $help:literal
        { $( $field:ident $(/ $service:ident)? ),* } $(($group:ident))?; )*) => {
        /// All events, in the order of the reference pages.
        pub const EVENTS: &[EventInfo] =
            &[$( EventInfo { name: $name, sentence: $sentence, help: $help } ),*];

        /// Name and description of an event.
        pub fn info(event: &Event) -> EventInfo {
            match event {
                $( Event::$variant { .. } => EventInfo { name: $name, sentence: $sentence, help: $help }, )*
            }
        }

        /// Writes every field of an event.
        pub(crate) fn write(event: &Event, out: &mut FieldWriter<'_>) {
            match event {
                $( Event::$variant { $( $field $(, $service)?, )* $( 0: $group )? } => {
                    $( schema!(@write out, $field $(, $service)?); )*
                    $( $group.write("", out); )?
                } )*
            }
        }

        /// Reads the event of this name with its fields.
        pub(crate) fn read(name: &str, line: &EventLine<'_>) -> Result<Event, String> {
            match name {
                $( $name => {
                    $( schema!(@read line, $field $(, $service)?); )*
                    $( let $group = EventField::read("", line)?; )?
                    Ok(Event::$variant { $( $field $(, $service)?, )* $( 0: $group )? })
                } )*
                other => Err(format!("there is no event `{other}`")),
            }
        }
    };
    (@write $out:ident, $field:ident) => { $field.write(stringify!($field), $out) };
    (@write $out:ident, $node:ident, $service:ident) => { $out.endpoint(stringify!($node), *$node, *$service) };
    (@read $line:ident, $field:ident) => { let $field = EventField::read(stringify!($field), $line)?; };
    (@read $line:ident, $node:ident, $service:ident) => {
        let ($node, $service) = $line.endpoint(stringify!($node))?;
    };
}

schema! {
    Seen "seen" "bundle seen"
        "The node learned of the bundle and gave it a number: always its first event, and the only one with its identity."
        { bundle, key, destination / destination_service, payload, size, priority, lifetime_ms };
    Created "created" "bundle created" "An application here created the bundle." { bundle };
    Received "received" "bundle received" "The bundle arrived whole over a link." { bundle, link, from };
    Recovered "recovered" "bundle recovered" "The bundle was found in the store after a restart." { bundle };
    Accepted "accepted" "bundle accepted" "The bundle is kept, and was acknowledged." { bundle };
    Routed "routed" "bundle routed" "The router chose a link and a neighbour." { bundle, link, next_hop };
    Waiting "waiting" "bundle waits" "No route to the destination at present." { bundle };
    Returned "returned" "bundle returned" "The bundle returned after it was forwarded, and is held back for a while: routes may form a loop." { bundle };
    Transmitting "transmitting" "bundle passed to its layer" "The bundle was handed to the convergence layer."
        { bundle, link };
    Forwarded "forwarded" "bundle forwarded" "The neighbour confirmed the bundle, or it was sent over a layer without acknowledgments."
        { bundle, link };
    ForwardFailed "forward_failed" "forwarding failed" "The convergence layer could not send the bundle; it will be routed again."
        { bundle, link };
    Delivered "delivered" "bundle delivered" "An application here took the bundle." { bundle };
    Deleted "deleted" "bundle deleted"
        "The bundle left this node; the reason says why, `done` after delivery or confirmation." { bundle, reason };
    CustodyTaken "custody_taken" "custody taken" "This node keeps the bundle until another one has custody of it." { bundle };
    CustodyReleased "custody_released" "custody released" "Another node has custody of the bundle." { bundle };
    CustodyRepeated "custody_repeated" "custody repeated"
        "No custody signal arrived in time: the bundle is retransmitted." { bundle };
    CustodySignalled "custody_signalled" "custody signal sent"
        "A custody signal is sent to a custodian: whether custody of its bundles was accepted, and of how many." { to, taken, bundles };
    CustodySignalIgnored "custody_signal_ignored" "custody signal ignored"
        "A custody signal arrived from a node that may not send it; it has no effect." { from };
    ReportsCompressed "reports_compressed" "compressed reports sent"
        "A compressed report on bundles was sent; `bundles` is their number." { to, bundles };
    Fragmented "fragmented" "fragment sent" "Part of the bundle's payload was sent as a fragment."
        { bundle, link, offset, length };
    Reassembled "reassembled" "bundle reassembled" "The bundle was reassembled from fragments." { bundle };
    Refused "refused" "bundle refused" "An offered bundle was refused." { link, key, reason };
    LinkUp "link_up" "link may be used" "A link may carry bundles; whether the neighbour answers shows only then." { link, peer };
    LinkDown "link_down" "link may not be used" "A link may carry no bundles." { link };
    Malformed "malformed" "malformed data discarded" "Received data that is not valid was discarded."
        { link, offset, reason };
    SessionRefused "session_refused" "session refused" "A session was refused, by this node or by its peer; `peer` is the node that the peer says it is."
        { link, peer, reason };
    LtpSegment "ltp_segment" "LTP segment"
        "An LTP segment was sent or received; only if the scenario requests segments." {} (segment);
    LtpSessionEnd "ltp_session_end" "LTP session ended"
        "An LTP session ended; the reason says whether it was cancelled, by which side and why."
        { link, engine, session, cancelled, why };
    ClockStepped "clock_stepped" "the wall clock stepped" "The wall clock jumped." { step_ms };
    ClockDoubted "clock_doubted" "the wall clock is not believed"
        "The clock is behind the time in the store, or further ahead of the last run than `downtime_max`: until it is corrected or confirmed, \
         lifetimes are counted by bundle age." { off_ms };
    StoreDamage "store_damage" "damaged record left out of the store"
        "A damaged record was found in the store and left out." { file, offset, len };
    StoreFailed "store_failed" "disk operation failed"
        "A disk operation failed; the store refuses bundles until the disk works again." { file };
    Fault "fault" "a fault of the scenario"
        "A fault of the scenario began or ended: `node down`, `node up`, `link down`, \
         `link up`, `clock`. Recorded by the simulator or testbed, not by the node." { link, what };
}

/// Whether a line of an events file holds this event, without parsing the line.
pub fn is_event(line: &[u8], name: &str) -> bool {
    // As the writer formats it, without spaces.
    let word = format!("\"event\":\"{name}\"");
    line.windows(word.len()).any(|window| window == word.as_bytes())
}

/// Markdown table of all events with their fields.
pub fn reference() -> String {
    let mut out = String::from("| event | fields | meaning |\n|---|---|---|\n");
    let names = EventNames::sample();
    for event in EVENTS {
        let line = EventLine::sample(&names);
        // Reading a sample requests every field, in the order of the event.
        let known = read(event.name, &line).is_ok();
        // A sample fits every field: reading it cannot fail.
        debug_assert!(known, "{}", event.name);
        let _ = writeln!(out, "| `{}` | {} | {} |", event.name, line.asked().join(", "), event.help);
    }
    out
}

/// One event of each kind with distinct numbers, for tests.
pub fn samples() -> Vec<Event> {
    let names = EventNames::sample();
    EVENTS.iter().filter_map(|event| read(event.name, &EventLine::sample(&names)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{BundleHandle, BundleKey, Instant, LinkId, NodeId, Refusal};

    #[test]
    fn written_events_are_read_back() {
        let names = EventNames::sample();
        let samples = samples();
        assert_eq!(samples.len(), EVENTS.len());
        for (event, known) in samples.iter().zip(EVENTS) {
            assert_eq!(info(event), *known);
            let text = names.json(Instant(9), 11, event);
            assert!(is_event(text.as_bytes(), known.name), "{text}");
            assert_eq!(names.read(&text), Ok((Instant(9), *event)), "{text}");
        }
    }

    #[test]
    fn optional_fields_read_back_absent() {
        let names = EventNames::sample();
        let key = BundleKey { source: NodeId::named("mars"), service: 0x2a, time: 0, sequence: 0, fragment: None };
        for event in [
            Event::Refused { link: None, key: None, reason: Refusal::Duplicate },
            Event::Refused { link: Some(LinkId(LinkId::DYNAMIC | 5)), key: Some(key), reason: Refusal::Expired },
            Event::Malformed { link: None, offset: u64::MAX, reason: "a \"quoted\" reason" },
            Event::ClockStepped { step_ms: -3 },
            Event::ClockDoubted { off_ms: -4 },
            Event::Received { bundle: BundleHandle(u64::MAX), link: LinkId(0), from: NodeId::named("moon") },
        ] {
            let text = names.json(Instant(0), 0, &event);
            assert_eq!(names.read(&text), Ok((Instant(0), event)), "{text}");
        }
    }

    #[test]
    fn reference_marks_optional_fields() {
        let text = reference();
        assert_eq!(text.lines().count(), EVENTS.len() + 2);
        for row in [
            "| `seen` | bundle, source, created_ms, sequence, fragment_offset?, fragment_length?, destination, payload, size, priority, lifetime_ms |",
            "| `refused` | link?, source?, created_ms, sequence, fragment_offset?, fragment_length?, reason |",
            "| `store_damage` | file, offset, len |",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
    }
}
