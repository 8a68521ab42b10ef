//! Names for the numbers in events: of the node, its links, and the bundles that it holds.

use crate::read::EventLine;
use crate::write::FieldWriter;
use crate::{schema, write};
use farlink_base::{BundleHandle, BundleKey, Event, Instant, LinkId, NodeId};
use std::collections::HashMap;

/// Prefix of the names of links that unconfigured peers opened.
const DYNAMIC: &str = "dynamic:";
/// Name of the pseudo-link of bundles sent inside others (BIBE).
const TUNNEL: &str = "tunnel";

/// Maps the numbers in the events of one node to names and back.
#[derive(Clone, Debug)]
pub struct EventNames {
    pub(crate) node: String,
    links: Vec<String>,
    bundles: HashMap<BundleHandle, BundleKey>,
}

impl EventNames {
    /// Names for a node and its links, in the order of their numbers.
    pub fn new(node: String, links: Vec<String>) -> Self {
        EventNames { node, links, bundles: HashMap::new() }
    }
    /// Adds the name of a link that was configured later.
    pub fn name_link(&mut self, link: LinkId, name: String) {
        // A dynamic link is named by its number; `links` contains configured links only.
        if link.is_dynamic() {
            return;
        }
        let place = link.0 as usize;
        if self.links.len() <= place {
            // Links may be named in any order.
            self.links.resize(place + 1, String::new());
        }
        self.links[place] = name;
    }
    pub(crate) fn sample() -> Self {
        EventNames::new("ipn:1.0".into(), vec!["space".into()])
    }
    pub(crate) fn link(&self, link: LinkId) -> String {
        match self.links.get(link.0 as usize) {
            Some(name) => name.clone(),
            None if link == LinkId::TUNNEL => TUNNEL.into(),
            // Without the flag the numbers are short.
            None => format!("{DYNAMIC}{}", link.0 & !LinkId::DYNAMIC),
        }
    }
    pub(crate) fn link_named(&self, name: &str) -> Option<LinkId> {
        if let Some(index) = self.links.iter().position(|link| link == name) {
            return u32::try_from(index).ok().map(LinkId);
        }
        if name == TUNNEL {
            return Some(LinkId::TUNNEL);
        }
        let number: u32 = name.strip_prefix(DYNAMIC)?.parse().ok()?;
        Some(LinkId(LinkId::DYNAMIC | number))
    }
    pub(crate) fn identity(&self, bundle: BundleHandle) -> Option<String> {
        self.bundles.get(&bundle).map(write::identity)
    }
    /// Updates the identities of bundles held; call it with every event, after writing it.
    pub fn after(&mut self, event: &Event) {
        match event {
            Event::Seen { bundle, key, .. } => {
                self.bundles.insert(*bundle, *key);
            }
            // No later event is about this bundle.
            Event::Deleted { bundle, .. } => {
                self.bundles.remove(bundle);
            }
            _ => {}
        }
    }
    /// Formats an event as one line of JSON.
    pub fn json(&self, at: Instant, utc_ns: u64, event: &Event) -> String {
        let mut out = FieldWriter::json(self);
        out.number("time_ns", at.0);
        out.number("utc_ns", utc_ns);
        out.text("node", &self.node);
        out.text("event", schema::info(event).name);
        schema::write(event, &mut out);
        out.finish()
    }
    /// Formats an event as a log line.
    pub fn text(&self, event: &Event) -> String {
        let mut out = FieldWriter::sentence(self, schema::info(event).sentence);
        schema::write(event, &mut out);
        out.finish()
    }
    /// Reads an event and its time from a line of JSON as written by [`EventNames::json`].
    ///
    /// # Errors
    /// Description of the first problem of the line.
    pub fn read(&self, json: &str) -> Result<(Instant, Event), String> {
        let line = EventLine::parse(json, self)?;
        Ok((Instant(line.number("time_ns")?), schema::read(&line.text("event", "")?, &line)?))
    }
}

/// Formats a node ID: `ipn:2.0`, or `dtn#5f3a…` with the hash of a dtn node's name.
pub fn node(node: NodeId) -> String {
    if node.is_named() { node.to_string() } else { format!("ipn:{}.0", node.0) }
}

/// Source of a bundle, as [`EventNames`] formats it.
pub fn source(key: &BundleKey) -> String {
    endpoint(key.source, key.service)
}

/// Formats an endpoint ID: `ipn:2.64`, or `dtn#5f3a…/2a` with the hash of the demux.
pub(crate) fn endpoint(node: NodeId, service: u64) -> String {
    if node.is_named() { format!("{node}/{service:x}") } else { format!("ipn:{}.{service}", node.0) }
}

/// Inverse of [`endpoint`] and [`node`].
pub(crate) fn parse_endpoint(text: &str) -> Option<(NodeId, u64)> {
    if let Some((node, service)) = text.strip_prefix("ipn:").and_then(|rest| rest.rsplit_once('.')) {
        return Some((NodeId(node.parse().ok()?), service.parse().ok()?));
    }
    let rest = text.strip_prefix("dtn#")?;
    let (number, service) = rest.split_once('/').unwrap_or((rest, "0"));
    let number = u64::from_str_radix(number, 16).ok().filter(|number| *number < NodeId::NAMED)?;
    Some((NodeId(NodeId::NAMED | number), u64::from_str_radix(service, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{DeleteReason, Priority, Refusal};

    fn seen(bundle: BundleHandle) -> Event {
        let key = BundleKey { source: NodeId(1), service: 64, time: 5, sequence: 3, fragment: Some((0, 10)) };
        Event::Seen {
            bundle,
            key,
            destination: NodeId(2),
            destination_service: 9,
            payload: 10,
            size: 60,
            priority: Priority::Bulk,
            lifetime_ms: 1000,
        }
    }

    #[test]
    fn lines_are_json_with_names() {
        let mut names = EventNames::new("ipn:1.0".into(), vec!["moon".into()]);
        let (bundle, link) = (BundleHandle(7), LinkId(0));
        let read = |names: &EventNames, event: &Event| -> serde_json::Value {
            serde_json::from_str(&names.json(Instant(9), 11, event)).unwrap()
        };
        let json = read(&names, &seen(bundle));
        assert_eq!((json["source"].as_str(), json["destination"].as_str()), (Some("ipn:1.64"), Some("ipn:2.9")));
        assert_eq!(json["fragment_length"], 10);
        assert_eq!((json["time_ns"].as_u64(), json["utc_ns"].as_u64()), (Some(9), Some(11)));
        names.after(&seen(bundle));
        assert_eq!(read(&names, &Event::Forwarded { bundle, link })["link"], "moon");
        let deleted = Event::Deleted { bundle, reason: DeleteReason::DepletedStorage };
        assert_eq!(read(&names, &deleted)["reason"], "depleted_storage");
        let refused = Event::Refused { link: None, key: None, reason: Refusal::NoResources };
        assert_eq!(read(&names, &refused)["reason"], "no_resources");
        let down = Event::LinkDown { link: LinkId(LinkId::DYNAMIC | 5) };
        assert_eq!(read(&names, &down)["link"], "dynamic:5");
    }

    #[test]
    fn sentences_name_held_bundles() {
        let mut names = EventNames::new("ipn:1.0".into(), vec!["moon".into()]);
        let (bundle, link) = (BundleHandle(7), LinkId(0));
        assert!(names.text(&seen(bundle)).starts_with("bundle seen bundle=7 id=ipn:1.64/5/3/0+10 destination=ipn:2.9"));
        names.after(&seen(bundle));
        let forwarded = Event::Forwarded { bundle, link };
        assert_eq!(names.text(&forwarded), "bundle forwarded bundle=7 id=ipn:1.64/5/3/0+10 link=moon");
        names.after(&Event::Deleted { bundle, reason: DeleteReason::Done });
        assert_eq!(names.text(&Event::Delivered { bundle }), "bundle delivered bundle=7");
        let refused = Event::Refused { link: Some(link), key: None, reason: Refusal::NoResources };
        assert_eq!(names.text(&refused), "bundle refused link=moon reason=\"no resources: storage or memory is full\"");
    }

    #[test]
    fn endpoints_and_their_text_are_inverse() {
        for (node, service) in [(NodeId(2), 64), (NodeId(7 << 32 | 1), 0), (NodeId::named("mars"), 0x2a)] {
            assert_eq!(parse_endpoint(&endpoint(node, service)), Some((node, service)));
            assert_eq!(parse_endpoint(&super::node(node)), Some((node, 0)));
        }
        // Names of dtn nodes are hashed: their text cannot be read back.
        for bad in ["", "ipn:2", "ipn:x.0", "dtn#", "dtn#1/xyz", "dtn://a/"] {
            assert_eq!(parse_endpoint(bad), None, "{bad}");
        }
    }
}
