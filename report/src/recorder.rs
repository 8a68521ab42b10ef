//! Conversion of the engine's events, which carry small numbers, to rows with names. Both worlds use it, so that equal
//! events give equal rows.

use crate::column::Text;
use crate::schema::EventRow;
use farlink_base::{BundleHandle, BundleKey, Event, LinkId, LtpSegmentEvent, Map, NodeId, Priority, map};
use farlink_events::Word;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names of nodes by ID, shared by all recorders of a run.
#[derive(Clone, Debug, Default)]
pub struct NodeNames {
    nodes: BTreeMap<NodeId, Text>,
}
impl NodeNames {
    /// Builds the table from pairs of node ID and name.
    pub fn new<'a>(nodes: impl IntoIterator<Item = (NodeId, &'a str)>) -> NodeNames {
        NodeNames { nodes: nodes.into_iter().map(|(id, name)| (id, Text::from(name))).collect() }
    }
    /// Name of the node, or its ID if it has no name.
    pub fn node(&self, id: NodeId) -> Text {
        self.nodes.get(&id).cloned().unwrap_or_else(|| id.to_string().into())
    }
}

/// Facts about a bundle, kept between its first and its last event at one node.
#[derive(Clone, Debug)]
struct RecordedBundle {
    key: BundleKey,
    source: Text,
    destination: Text,
    destination_service: u64,
    payload: u64,
    size: u64,
    priority: Priority,
}

/// Converts the events of one node to rows. Memory: one small record for each bundle at the node.
pub struct Recorder {
    node: Text,
    links: Vec<Text>,
    names: Arc<NodeNames>,
    bundles: Map<BundleHandle, RecordedBundle>,
}

impl Recorder {
    /// Creates the recorder of a node. `links` holds the names of its links in the order of its configuration.
    pub fn new(node: &str, links: &[&str], names: Arc<NodeNames>) -> Recorder {
        Recorder { node: node.into(), links: links.iter().map(|l| Text::from(*l)).collect(), names, bundles: map(0) }
    }

    /// Names a link that the node added, or reused for another neighbour. Dynamic links keep their generated names.
    pub fn name_link(&mut self, link: LinkId, name: &str) {
        let place = link.0 as usize;
        if !link.is_dynamic() {
            // Link numbers are consecutive, so a gap belongs to links that are named later.
            self.links.resize(self.links.len().max(place + 1), Text::from("?"));
            self.links[place] = name.into();
        }
    }

    fn link(&self, link: LinkId) -> Text {
        // The tunnel has a reserved number and no place in the configuration.
        if link == LinkId::TUNNEL {
            return Text::from("tunnel");
        }
        let known = self.links.get(link.0 as usize).cloned();
        known.unwrap_or_else(|| format!("dynamic-{}", link.0 & !LinkId::DYNAMIC).into())
    }

    /// Converts an event at `time_ns` after the start of the run to a row. `None` for `Seen`, which only introduces a
    /// bundle's number.
    pub fn row(&mut self, time_ns: u64, event: &Event) -> Option<EventRow> {
        let mut row = EventRow::new(time_ns, self.node.clone(), Text::word(farlink_events::info(event).name));
        match event {
            Event::Seen { bundle, key, destination, destination_service, payload, size, priority, .. } => {
                let known = RecordedBundle {
                    key: *key,
                    source: self.names.node(key.source),
                    destination: self.names.node(*destination),
                    destination_service: *destination_service,
                    payload: *payload,
                    size: *size,
                    priority: *priority,
                };
                self.bundles.insert(*bundle, known);
                // The bundle's next event yields the first row, with these facts.
                return None;
            }
            Event::Created { bundle }
            | Event::Recovered { bundle }
            | Event::Accepted { bundle }
            | Event::Waiting { bundle }
            | Event::Returned { bundle }
            | Event::Delivered { bundle }
            | Event::Reassembled { bundle }
            | Event::CustodyTaken { bundle }
            | Event::CustodyReleased { bundle }
            | Event::CustodyRepeated { bundle } => self.about(&mut row, bundle),
            Event::CustodySignalled { to: peer, .. }
            | Event::ReportsCompressed { to: peer, .. }
            | Event::CustodySignalIgnored { from: peer } => {
                row.peer = Some(self.names.node(*peer));
            }
            Event::Fragmented { bundle, link, offset, length } => {
                self.about(&mut row, bundle);
                row.link = Some(self.link(*link));
                (row.offset, row.size) = (Some(*offset), Some(*length));
            }
            Event::Received { bundle, link, from: peer } | Event::Routed { bundle, link, next_hop: peer } => {
                self.about(&mut row, bundle);
                row.link = Some(self.link(*link));
                row.peer = Some(self.names.node(*peer));
            }
            Event::Transmitting { bundle, link }
            | Event::Forwarded { bundle, link }
            | Event::ForwardFailed { bundle, link } => {
                self.about(&mut row, bundle);
                row.link = Some(self.link(*link));
            }
            Event::Deleted { bundle, reason } => {
                self.about(&mut row, bundle);
                row.reason = Some(Text::word(reason.word()));
                // The number may be reused for another bundle from here on.
                self.bundles.remove(bundle);
            }
            Event::Refused { link, key, reason } => {
                row.link = link.map(|l| self.link(l));
                row.reason = Some(Text::word(reason.word()));
                if let Some(key) = key {
                    let source = self.names.node(key.source);
                    identified(&mut row, key, source);
                }
            }
            other => self.of_the_node(&mut row, other),
        }
        Some(row)
    }

    /// Fills in rows about links, sessions, clock and store.
    fn of_the_node(&self, row: &mut EventRow, event: &Event) {
        match event {
            Event::LinkUp { link, peer } => {
                row.link = Some(self.link(*link));
                row.peer = Some(self.names.node(*peer));
            }
            Event::LinkDown { link } => row.link = Some(self.link(*link)),
            Event::Malformed { link, offset, reason } => {
                row.link = link.map(|l| self.link(l));
                row.offset = Some(*offset);
                row.reason = Some(Text::word(reason));
            }
            Event::LtpSegment(segment) => self.segment(row, segment),
            Event::LtpSessionEnd { link, engine, session, why, .. } => {
                row.link = Some(self.link(*link));
                row.engine = Some(*engine);
                row.session = Some(*session);
                row.reason = Some(Text::word(why));
            }
            Event::ClockDoubted { off_ms } => row.reason = Some(format!("{off_ms} ms").into()),
            Event::ClockStepped { step_ms } => row.reason = Some(format!("{step_ms} ms").into()),
            Event::StoreDamage { file, offset, len } => {
                row.offset = Some(*offset);
                row.size = Some(*len);
                row.reason = Some(format!("file {file}").into());
            }
            Event::Fault { link, what } => {
                row.link = link.map(|l| self.link(l));
                row.reason = Some(Text::word(what));
            }
            Event::StoreFailed { file } => row.reason = Some(format!("file {file}").into()),
            // Events about bundles are handled in `row`.
            _ => {}
        }
    }

    fn about(&self, row: &mut EventRow, bundle: &BundleHandle) {
        // Recording may have begun after the event that introduced the bundle.
        let Some(known) = self.bundles.get(bundle) else { return };
        identified(row, &known.key, known.source.clone());
        row.destination = Some(known.destination.clone());
        row.destination_service = Some(known.destination_service);
        row.size = Some(known.payload);
        row.bundle_bytes = Some(known.size);
        row.priority = Some(Text::word(known.priority.word()));
    }

    fn segment(&self, row: &mut EventRow, segment: &LtpSegmentEvent) {
        row.link = Some(self.link(segment.link));
        row.engine = Some(segment.engine);
        row.session = Some(segment.session);
        row.segment = Some(u64::from(segment.kind));
        row.offset = Some(segment.offset);
        row.size = Some(segment.length);
        // The engine reports an absent serial number as 0.
        row.checkpoint = (segment.checkpoint != 0).then_some(segment.checkpoint);
        row.report = (segment.report != 0).then_some(segment.report);
        row.sent = Some(segment.sent);
        row.resend = Some(segment.resend);
    }
}

fn identified(row: &mut EventRow, key: &BundleKey, source: Text) {
    row.source = Some(source);
    row.service = Some(key.service);
    row.creation_ms = Some(key.time);
    row.sequence = Some(key.sequence);
    row.fragment_offset = key.fragment.map(|(offset, _)| offset);
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DeleteReason;

    fn recorder() -> Recorder {
        let names = NodeNames::new([(NodeId(1), "probe"), (NodeId(2), "ground")]);
        Recorder::new("probe", &["space"], Arc::new(names))
    }
    fn seen(bundle: BundleHandle) -> Event {
        let key = BundleKey { source: NodeId(1), service: 7, time: 5, sequence: 3, fragment: Some((100, 900)) };
        Event::Seen {
            bundle,
            key,
            destination: NodeId(9),
            destination_service: 1000,
            payload: 50,
            size: 90,
            priority: Priority::Bulk,
            lifetime_ms: 1000,
        }
    }

    #[test]
    fn reused_link_number_takes_new_name() {
        let mut recorder = recorder();
        let of = |recorder: &mut Recorder, link| {
            recorder
                .row(1, &Event::LinkDown { link: LinkId(link) })
                .and_then(|row| row.link)
                .map(|text| text.to_string())
        };
        recorder.name_link(LinkId(2), "wifi:a-b");
        assert_eq!(of(&mut recorder, 2).as_deref(), Some("wifi:a-b"));
        assert_eq!((of(&mut recorder, 0).as_deref(), of(&mut recorder, 1).as_deref()), (Some("space"), Some("?")));
        recorder.name_link(LinkId(2), "wifi:a-c");
        recorder.name_link(LinkId(LinkId::DYNAMIC | 7), "no number of ours");
        assert_eq!(of(&mut recorder, 2).as_deref(), Some("wifi:a-c"));
        assert_eq!(of(&mut recorder, 9).as_deref(), Some("dynamic-9"));
    }

    #[test]
    fn rows_carry_names_and_bundle_identity() {
        let (mut r, bundle) = (recorder(), BundleHandle(4));
        assert_eq!(r.row(0, &seen(bundle)), None);
        let row = r.row(1, &Event::Received { bundle, link: LinkId(0), from: NodeId(2) }).unwrap();
        assert_eq!(
            (&*row.event, row.link.as_deref(), row.peer.as_deref()),
            ("received", Some("space"), Some("ground"))
        );
        assert_eq!((row.source.as_deref(), row.sequence, row.fragment_offset), (Some("probe"), Some(3), Some(100)));
        assert_eq!(
            (row.destination.as_deref(), row.size, row.priority.as_deref()),
            (Some("ipn:9"), Some(50), Some("bulk"))
        );
        let gone = r.row(2, &Event::Deleted { bundle, reason: DeleteReason::Expired }).unwrap();
        assert_eq!((gone.reason.as_deref(), gone.sequence), (Some("expired"), Some(3)));
        // Deletion ends the number's meaning, so later events about it carry no identity.
        assert_eq!(r.row(3, &Event::Waiting { bundle }).unwrap().source, None, "forgotten after deletion");
    }

    #[test]
    fn every_event_but_seen_has_row() {
        let mut r = recorder();
        for event in farlink_events::schema::samples() {
            let (row, name) = (r.row(0, &event), farlink_events::info(&event).name);
            assert_eq!(row.map(|row| row.event.to_string()), (name != "seen").then(|| name.to_string()));
        }
    }

    #[test]
    fn absent_ltp_serial_number_is_none() {
        let link = LinkId(LinkId::DYNAMIC | 3);
        let segment = LtpSegmentEvent {
            link,
            sent: true,
            engine: 1,
            session: 2,
            kind: 3,
            offset: 0,
            length: 10,
            checkpoint: 1,
            report: 0,
            resend: false,
        };
        let row = recorder().row(0, &Event::LtpSegment(segment)).unwrap();
        assert_eq!((row.link.as_deref(), row.checkpoint, row.report), (Some("dynamic-3"), Some(1), None));
    }
}
