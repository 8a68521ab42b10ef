//! Names for numbers, JSON lines and sentences of events.

use farlink_base::{BundleHandle, BundleKey, Event, Instant, LinkId, NodeId, Priority};
use std::collections::HashMap;
use std::fmt::Write;

/// What is needed to name things in events: the node, its links, and the bundles it holds.
#[derive(Debug)]
pub struct Names {
    node: String,
    links: Vec<String>,
    bundles: HashMap<BundleHandle, BundleKey>,
}

impl Names {
    /// For a node and its links by number.
    pub fn new(node: String, links: Vec<String>) -> Self {
        Names { node, links, bundles: HashMap::new() }
    }
    fn link(&self, link: LinkId) -> String {
        match self.links.get(link.0 as usize) {
            Some(name) => name.clone(),
            None => format!("dynamic:{}", link.0 & !LinkId::DYNAMIC),
        }
    }
    /// Forgets a bundle that is gone.
    pub fn after(&mut self, event: &Event) {
        match event {
            Event::Seen { bundle, key, .. } => {
                self.bundles.insert(*bundle, *key);
            }
            Event::Deleted { bundle, .. } => {
                self.bundles.remove(bundle);
            }
            _ => {}
        }
    }

    /// The event as one line of JSON.
    pub fn json(&self, at: Instant, utc_ns: u64, event: &Event) -> String {
        let (name, _) = describe(event);
        let mut line = Line(String::with_capacity(256));
        let _ = write!(line.0, "{{\"time_ns\":{},\"utc_ns\":{utc_ns}", at.0);
        line.text("node", &self.node);
        line.text("event", name);
        self.fields(event, &mut line);
        line.0.push('}');
        line.0
    }
    fn fields(&self, event: &Event, line: &mut Line) {
        if let Some(bundle) = bundle_of(event) {
            line.number("bundle", bundle.0);
        }
        if let Some(link) = link_of(event) {
            line.text("link", &self.link(link));
        }
        match event {
            Event::Seen { key, destination, destination_service, payload, size, priority, lifetime_ms, .. } => {
                line.key(key);
                line.text("destination", &endpoint(*destination, *destination_service));
                line.number("payload", *payload);
                line.number("size", *size);
                line.text("priority", priority_name(*priority));
                line.number("lifetime_ms", *lifetime_ms);
            }
            Event::Received { from, .. } => line.text("from", &node(*from)),
            Event::Routed { next_hop, .. } => line.text("next_hop", &node(*next_hop)),
            Event::Deleted { reason, .. } => line.text("reason", &snake(&format!("{reason:?}"))),
            Event::Fragmented { into, .. } => line.number("into", into.0),
            Event::Refused { key, reason, .. } => {
                if let Some(key) = key {
                    line.key(key);
                }
                line.text("reason", &snake(&format!("{reason:?}")));
            }
            Event::LinkUp { peer, .. } => line.text("peer", &node(*peer)),
            Event::Malformed { offset, reason, .. } => {
                line.number("offset", *offset);
                line.text("reason", reason);
            }
            Event::LtpSegment(segment) => {
                line.raw("sent", segment.sent);
                line.number("engine", segment.engine);
                line.number("session", segment.session);
                line.number("kind", segment.kind.into());
                line.number("offset", segment.offset);
                line.number("length", segment.length);
                line.number("checkpoint", segment.checkpoint);
                line.number("report", segment.report);
                line.raw("resend", segment.resend);
            }
            Event::LtpSessionEnd { engine, session, cancelled, .. } => {
                line.number("engine", *engine);
                line.number("session", *session);
                line.raw("cancelled", *cancelled);
            }
            Event::ClockStepped { step_ms } => line.raw("step_ms", *step_ms),
            Event::StoreDamage { file, offset, len } => {
                line.number("file", (*file).into());
                line.number("offset", *offset);
                line.number("len", *len);
            }
            Event::StoreFailed { file } => line.number("file", (*file).into()),
            _ => {}
        }
    }

    /// The event as a sentence.
    pub fn text(&self, event: &Event) -> String {
        let (_, sentence) = describe(event);
        let mut text = sentence.to_string();
        if let Some(bundle) = bundle_of(event) {
            let key = if let Event::Seen { key, .. } = event { Some(key) } else { self.bundles.get(&bundle) };
            let _ = write!(text, " bundle={}", bundle.0);
            if let Some(key) = key {
                let _ = write!(text, " id={}", identity(key));
            }
        }
        if let Some(link) = link_of(event) {
            let _ = write!(text, " link={}", self.link(link));
        }
        let _ = match event {
            Event::Seen { destination, destination_service, payload, priority, .. } => {
                let to = endpoint(*destination, *destination_service);
                write!(text, " to={to} payload={payload} priority={}", priority_name(*priority))
            }
            Event::Received { from, .. } => write!(text, " from={}", node(*from)),
            Event::Routed { next_hop, .. } => write!(text, " next_hop={}", node(*next_hop)),
            Event::Deleted { reason, .. } => write!(text, " reason={}", snake(&format!("{reason:?}"))),
            Event::Fragmented { into, .. } => write!(text, " into={}", into.0),
            Event::Refused { key, reason, .. } => {
                write!(text, " reason=\"{reason}\" id={}", key.as_ref().map_or_else(|| "unknown".into(), identity))
            }
            Event::LinkUp { peer, .. } => write!(text, " peer={}", node(*peer)),
            Event::Malformed { offset, reason, .. } => write!(text, " offset={offset} reason=\"{reason}\""),
            Event::LtpSegment(s) => write!(
                text,
                " sent={} session={}.{} kind={} offset={} length={}",
                s.sent, s.engine, s.session, s.kind, s.offset, s.length
            ),
            Event::LtpSessionEnd { engine, session, cancelled, .. } => {
                write!(text, " session={engine}.{session} cancelled={cancelled}")
            }
            Event::ClockStepped { step_ms } => write!(text, " step_ms={step_ms}"),
            Event::StoreDamage { file, offset, len } => write!(text, " file={file} offset={offset} len={len}"),
            Event::StoreFailed { file } => write!(text, " file={file}"),
            _ => Ok(()),
        };
        text
    }
}

/// A JSON object being written.
struct Line(String);
impl Line {
    fn raw(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.0, ",\"{name}\":{value}");
    }
    fn number(&mut self, name: &str, value: u64) {
        self.raw(name, value);
    }
    fn text(&mut self, name: &str, value: &str) {
        let _ = write!(self.0, ",\"{name}\":{}", serde_json::Value::from(value));
    }
    fn key(&mut self, key: &BundleKey) {
        self.text("source", &endpoint(key.source, key.service));
        self.number("created_ms", key.time);
        self.number("sequence", key.sequence);
        if let Some((offset, length)) = key.fragment {
            self.number("fragment_offset", offset);
            self.number("fragment_length", length);
        }
    }
}

fn describe(event: &Event) -> (&'static str, &'static str) {
    match event {
        Event::Seen { .. } => ("seen", "bundle seen"),
        Event::Created { .. } => ("created", "bundle created"),
        Event::Received { .. } => ("received", "bundle received"),
        Event::Recovered { .. } => ("recovered", "bundle recovered"),
        Event::Accepted { .. } => ("accepted", "bundle accepted"),
        Event::Routed { .. } => ("routed", "bundle routed"),
        Event::Waiting { .. } => ("waiting", "bundle waits"),
        Event::Transmitting { .. } => ("transmitting", "bundle handed to its layer"),
        Event::Forwarded { .. } => ("forwarded", "bundle forwarded"),
        Event::ForwardFailed { .. } => ("forward_failed", "bundle came back"),
        Event::Delivered { .. } => ("delivered", "bundle delivered"),
        Event::Deleted { .. } => ("deleted", "bundle deleted"),
        Event::Fragmented { .. } => ("fragmented", "bundle cut"),
        Event::Reassembled { .. } => ("reassembled", "bundle joined from fragments"),
        Event::Refused { .. } => ("refused", "bundle refused"),
        Event::LinkUp { .. } => ("link_up", "link up"),
        Event::LinkDown { .. } => ("link_down", "link down"),
        Event::Malformed { .. } => ("malformed", "malformed data thrown away"),
        Event::LtpSegment(_) => ("ltp_segment", "LTP segment"),
        Event::LtpSessionEnd { .. } => ("ltp_session_end", "LTP session ended"),
        Event::ClockStepped { .. } => ("clock_stepped", "the wall clock stepped"),
        Event::StoreDamage { .. } => ("store_damage", "damaged record left out of the store"),
        Event::StoreFailed { .. } => ("store_failed", "disk operation failed"),
    }
}

fn bundle_of(event: &Event) -> Option<BundleHandle> {
    match event {
        Event::Seen { bundle, .. }
        | Event::Created { bundle }
        | Event::Received { bundle, .. }
        | Event::Recovered { bundle }
        | Event::Accepted { bundle }
        | Event::Routed { bundle, .. }
        | Event::Waiting { bundle }
        | Event::Transmitting { bundle, .. }
        | Event::Forwarded { bundle, .. }
        | Event::ForwardFailed { bundle, .. }
        | Event::Delivered { bundle }
        | Event::Deleted { bundle, .. }
        | Event::Fragmented { bundle, .. }
        | Event::Reassembled { bundle } => Some(*bundle),
        _ => None,
    }
}

fn link_of(event: &Event) -> Option<LinkId> {
    match event {
        Event::Received { link, .. }
        | Event::Routed { link, .. }
        | Event::Transmitting { link, .. }
        | Event::Forwarded { link, .. }
        | Event::ForwardFailed { link, .. }
        | Event::LinkUp { link, .. }
        | Event::LinkDown { link }
        | Event::LtpSessionEnd { link, .. } => Some(*link),
        Event::LtpSegment(segment) => Some(segment.link),
        Event::Refused { link, .. } | Event::Malformed { link, .. } => *link,
        _ => None,
    }
}

fn node(node: NodeId) -> String {
    match node.interned_index() {
        Some(_) => node.to_string(),
        None => format!("ipn:{}.0", node.0),
    }
}
fn endpoint(node: NodeId, service: u64) -> String {
    match node.interned_index() {
        Some(_) => format!("{node}/{service:x}"),
        None => format!("ipn:{}.{service}", node.0),
    }
}
fn identity(key: &BundleKey) -> String {
    let fragment = key.fragment.map(|(offset, length)| format!("/{offset}+{length}")).unwrap_or_default();
    format!("{}/{}/{}{fragment}", endpoint(key.source, key.service), key.time, key.sequence)
}
fn priority_name(priority: Priority) -> &'static str {
    match priority {
        Priority::Bulk => "bulk",
        Priority::Normal => "normal",
        Priority::Expedited => "expedited",
    }
}
/// `NoResources` to `no_resources`.
fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{DeleteReason, Refusal};

    #[test]
    fn every_line_is_json_and_names_links_and_endpoints() {
        let mut names = Names::new("ipn:1.0".into(), vec!["moon".into()]);
        let key = BundleKey { source: NodeId(1), service: 64, time: 5, sequence: 3, fragment: Some((0, 10)) };
        let (bundle, link) = (BundleHandle(7), LinkId(0));
        let seen = Event::Seen {
            bundle,
            key,
            destination: NodeId(2),
            destination_service: 9,
            payload: 10,
            size: 60,
            priority: Priority::Bulk,
            lifetime_ms: 1000,
        };
        let read = |names: &Names, event: &Event| -> serde_json::Value {
            serde_json::from_str(&names.json(Instant(9), 11, event)).unwrap()
        };
        let json = read(&names, &seen);
        assert_eq!(json["source"], "ipn:1.64");
        assert_eq!(json["destination"], "ipn:2.9");
        assert_eq!(json["fragment_length"], 10);
        assert_eq!((json["time_ns"].as_u64(), json["utc_ns"].as_u64()), (Some(9), Some(11)));
        names.after(&seen);
        let forwarded = Event::Forwarded { bundle, link };
        assert_eq!(read(&names, &forwarded)["link"], "moon");
        assert_eq!(names.text(&forwarded), "bundle forwarded bundle=7 id=ipn:1.64/5/3/0+10 link=moon");
        let deleted = Event::Deleted { bundle, reason: DeleteReason::DepletedStorage };
        assert_eq!(read(&names, &deleted)["reason"], "depleted_storage");
        names.after(&deleted);
        assert_eq!(names.text(&Event::Delivered { bundle }), "bundle delivered bundle=7");
        let refused = Event::Refused { link: None, key: None, reason: Refusal::NoResources };
        assert_eq!(read(&names, &refused)["reason"], "no_resources");
        let down = Event::LinkDown { link: LinkId(LinkId::DYNAMIC | 5) };
        assert_eq!(read(&names, &down)["link"], "dynamic:5");
    }
}
