//! Events of `farlink app`, a line each.

use serde_json::{Value, json};

/// Something that an application did or received. Times are `CLOCK_MONOTONIC`, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AppEvent {
    /// A bundle was handed over.
    Created {
        /// Flow of the sender.
        flow: u64,
        /// Number of the bundle in its flow.
        number: u64,
        /// Time of sending, from the stamp.
        at_ns: u64,
        /// Payload bytes.
        bytes: u64,
    },
    /// Everything was handed over and accepted.
    Sent {
        /// Number of bundles.
        bundles: u64,
        /// Payload bytes of all.
        bytes: u64,
        /// Whether a program of the implementation sent its own payloads.
        own: bool,
    },
    /// A bundle was delivered.
    Delivered {
        /// Flow, number and time of sending, if the payload is long enough for a stamp.
        stamp: Option<super::stamp::Stamp>,
        /// Time of delivery.
        at_ns: u64,
        /// Payload bytes.
        bytes: u64,
        /// Whether the same bundle was delivered before.
        again: bool,
    },
    /// A program of the implementation received everything that it waited for.
    Counted {
        /// Number of bundles.
        bundles: u64,
        /// Time at which the program ended.
        at_ns: u64,
    },
    /// A ping was answered.
    RoundTrip {
        /// Number of the ping.
        number: u64,
        /// Time of the answer.
        at_ns: u64,
        /// Round-trip time, s.
        rtt_s: f64,
        /// Whether a program of the implementation measured it.
        own: bool,
    },
    /// A ping was not answered in time.
    Lost {
        /// Number of the ping.
        number: u64,
    },
}

impl AppEvent {
    /// The event as a JSON object.
    pub fn json(&self) -> Value {
        let mut value = match *self {
            AppEvent::Created { flow, number, at_ns, bytes } => {
                json!({ "event": "created", "flow": flow, "number": number, "at_ns": at_ns, "bytes": bytes })
            }
            AppEvent::Sent { bundles, bytes, .. } => json!({ "event": "sent", "bundles": bundles, "bytes": bytes }),
            AppEvent::Delivered { stamp, at_ns, bytes, again } => json!({
                "event": "delivered", "flow": stamp.map(|stamp| stamp.flow), "number": stamp.map(|stamp| stamp.number),
                "at_ns": at_ns, "created_ns": stamp.map(|stamp| stamp.sent_ns), "bytes": bytes, "again": again,
            }),
            AppEvent::Counted { bundles, at_ns } => json!({ "event": "counted", "bundles": bundles, "at_ns": at_ns }),
            AppEvent::RoundTrip { number, at_ns, rtt_s, .. } => {
                json!({ "event": "round_trip", "number": number, "at_ns": at_ns, "rtt_s": rtt_s })
            }
            AppEvent::Lost { number } => json!({ "event": "lost", "number": number }),
        };
        let own = match self {
            AppEvent::Sent { own, .. } | AppEvent::RoundTrip { own, .. } => *own,
            AppEvent::Counted { .. } => true,
            _ => false,
        };
        if own {
            value["own"] = true.into();
        }
        value
    }
    /// The event for people.
    pub fn text(&self) -> String {
        match self {
            AppEvent::Created { number, bytes, .. } => format!("bundle {number}: {bytes} B handed over"),
            AppEvent::Sent { bundles, bytes, .. } => format!("{bundles} bundles accepted, {bytes} B"),
            AppEvent::Delivered { stamp: None, bytes, .. } => format!("a bundle without identity: {bytes} B"),
            AppEvent::Delivered { stamp: Some(stamp), at_ns, bytes, again } => {
                let seconds = at_ns.saturating_sub(stamp.sent_ns) as f64 / 1e9;
                let again = if *again { ", again" } else { "" };
                format!("flow {}, bundle {}: {bytes} B after {seconds:.6} s{again}", stamp.flow, stamp.number)
            }
            AppEvent::Counted { bundles, .. } => format!("{bundles} bundles counted by the implementation's program"),
            AppEvent::RoundTrip { number, rtt_s, .. } => format!("ping {number}: {:.3} ms", rtt_s * 1e3),
            AppEvent::Lost { number } => format!("ping {number}: no answer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamp::Stamp;
    use super::*;

    #[test]
    fn lines_have_their_documented_keys() {
        let line = |event: AppEvent| event.json().to_string();
        let stamp = Some(Stamp { flow: 1, number: 2, sent_ns: 3 });
        let delivered = |stamp| AppEvent::Delivered { stamp, at_ns: 4, bytes: 5, again: false };
        // Keys of JSON objects are sorted.
        assert_eq!(
            line(delivered(stamp)),
            r#"{"again":false,"at_ns":4,"bytes":5,"created_ns":3,"event":"delivered","flow":1,"number":2}"#
        );
        assert!(line(delivered(None)).contains(r#""created_ns":null,"event":"delivered","flow":null,"number":null"#));
        assert_eq!(
            line(AppEvent::Created { flow: 1, number: 2, at_ns: 3, bytes: 4 }),
            r#"{"at_ns":3,"bytes":4,"event":"created","flow":1,"number":2}"#
        );
        let sent = |own| line(AppEvent::Sent { bundles: 1, bytes: 2, own });
        assert_eq!(sent(false), r#"{"bundles":1,"bytes":2,"event":"sent"}"#);
        assert_eq!(sent(true), r#"{"bundles":1,"bytes":2,"event":"sent","own":true}"#);
        let trip = line(AppEvent::RoundTrip { number: 1, at_ns: 2, rtt_s: 0.25, own: false });
        assert_eq!(trip, r#"{"at_ns":2,"event":"round_trip","number":1,"rtt_s":0.25}"#);
        assert_eq!(line(AppEvent::Lost { number: 7 }), r#"{"event":"lost","number":7}"#);
        assert!(line(AppEvent::Counted { bundles: 1, at_ns: 2 }).contains(r#""own":true"#));
    }
}
