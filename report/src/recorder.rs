//! From the engine's events, which carry small numbers, to rows with names. Both worlds use it, so
//! that the same event gives the same row.

use crate::column::Text;
use crate::schema::EventRow;
use farlink_base::{BundleHandle, BundleKey, DeleteReason, Event, LinkId, LtpSegmentEvent, NodeId, Priority};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Names of nodes, shared by all recorders of a run.
#[derive(Clone, Debug, Default)]
pub struct Names {
    nodes: BTreeMap<NodeId, Text>,
}
impl Names {
    /// From pairs of short form and name.
    pub fn new<'a>(nodes: impl IntoIterator<Item = (NodeId, &'a str)>) -> Names {
        Names { nodes: nodes.into_iter().map(|(id, name)| (id, Text::from(name))).collect() }
    }
    /// The node's name, or its ID where it has none.
    pub fn node(&self, id: NodeId) -> Text {
        self.nodes.get(&id).cloned().unwrap_or_else(|| id.to_string().into())
    }
}

/// What is remembered of a bundle between its first and its last event at one node.
#[derive(Clone, Debug)]
struct Bundle {
    key: BundleKey,
    destination: NodeId,
    destination_service: u64,
    payload: u64,
    size: u64,
    priority: Priority,
}

/// Turns the events of one node into rows. Memory: one small record for each bundle at the node.
pub struct Recorder {
    node: Text,
    links: Vec<Text>,
    names: Arc<Names>,
    bundles: HashMap<BundleHandle, Bundle>,
}

impl Recorder {
    /// For the node of this name; `links` are the names of its links in the order of its
    /// configuration.
    pub fn new(node: &str, links: &[&str], names: Arc<Names>) -> Recorder {
        Recorder {
            node: node.into(),
            links: links.iter().map(|l| Text::from(*l)).collect(),
            names,
            bundles: HashMap::new(),
        }
    }

    fn link(&self, link: LinkId) -> Text {
        let known = self.links.get(link.0 as usize).cloned();
        known.unwrap_or_else(|| format!("dynamic-{}", link.0 & !LinkId::DYNAMIC).into())
    }

    /// The row of an event, `time_ns` after the start of the run. Nothing for events that only
    /// number a bundle.
    pub fn row(&mut self, time_ns: u64, event: &Event) -> Option<EventRow> {
        let row = |name: &str| EventRow::new(time_ns, self.node.clone(), name);
        let about = |name: &str, bundle: &BundleHandle| self.about(row(name), bundle);
        let over = |name: &str, bundle: &BundleHandle, link: LinkId| {
            let mut row = about(name, bundle);
            row.link = Some(self.link(link));
            row
        };
        Some(match event {
            Event::Seen { bundle, key, destination, destination_service, payload, size, priority, .. } => {
                let known = Bundle {
                    key: *key,
                    destination: *destination,
                    destination_service: *destination_service,
                    payload: *payload,
                    size: *size,
                    priority: *priority,
                };
                self.bundles.insert(*bundle, known);
                return None;
            }
            Event::Created { bundle } => about("created", bundle),
            Event::Received { bundle, link, from } => {
                let mut row = over("received", bundle, *link);
                row.peer = Some(self.names.node(*from));
                row
            }
            Event::Recovered { bundle } => about("recovered", bundle),
            Event::Accepted { bundle } => about("accepted", bundle),
            Event::Routed { bundle, link, next_hop } => {
                let mut row = over("routed", bundle, *link);
                row.peer = Some(self.names.node(*next_hop));
                row
            }
            Event::Waiting { bundle } => about("waiting", bundle),
            Event::Transmitting { bundle, link } => over("transmitting", bundle, *link),
            Event::Forwarded { bundle, link } => over("forwarded", bundle, *link),
            Event::ForwardFailed { bundle, link } => over("forward_failed", bundle, *link),
            Event::Delivered { bundle } => about("delivered", bundle),
            Event::Deleted { bundle, reason } => {
                let mut row = about("deleted", bundle);
                row.reason = Some(reason_name(*reason).into());
                self.bundles.remove(bundle);
                row
            }
            Event::Fragmented { into, .. } => about("fragmented", into),
            Event::Reassembled { bundle } => about("reassembled", bundle),
            Event::Refused { link, key, reason } => {
                let mut row = row("refused");
                row.link = link.map(|l| self.link(l));
                row.reason = Some(reason.to_string().into());
                match key {
                    Some(key) => self.identified(row, key),
                    None => row,
                }
            }
            Event::LinkUp { link, peer } => {
                EventRow { link: Some(self.link(*link)), peer: Some(self.names.node(*peer)), ..row("link_up") }
            }
            Event::LinkDown { link } => EventRow { link: Some(self.link(*link)), ..row("link_down") },
            Event::Malformed { link, offset, reason } => EventRow {
                link: link.map(|l| self.link(l)),
                offset: Some(*offset),
                reason: Some((*reason).into()),
                ..row("malformed")
            },
            Event::LtpSegment(segment) => self.segment(row("ltp_segment"), segment),
            Event::LtpSessionEnd { link, engine, session, cancelled } => EventRow {
                link: Some(self.link(*link)),
                engine: Some(*engine),
                session: Some(*session),
                reason: Some(if *cancelled { "cancelled" } else { "completed" }.into()),
                ..row("ltp_session_end")
            },
            Event::ClockStepped { step_ms } => {
                EventRow { reason: Some(format!("{step_ms} ms").into()), ..row("clock_stepped") }
            }
            Event::StoreDamage { file, offset, len } => EventRow {
                offset: Some(*offset),
                size: Some(*len),
                reason: Some(format!("file {file}").into()),
                ..row("store_damage")
            },
            Event::StoreFailed { file } => {
                EventRow { reason: Some(format!("file {file}").into()), ..row("store_failed") }
            }
        })
    }

    fn identified(&self, mut row: EventRow, key: &BundleKey) -> EventRow {
        row.source = Some(self.names.node(key.source));
        row.service = Some(key.service);
        row.creation_ms = Some(key.time);
        row.sequence = Some(key.sequence);
        row.fragment_offset = key.fragment.map(|(offset, _)| offset);
        row
    }

    fn about(&self, row: EventRow, bundle: &BundleHandle) -> EventRow {
        let Some(known) = self.bundles.get(bundle) else { return row };
        let mut row = self.identified(row, &known.key);
        row.destination = Some(self.names.node(known.destination));
        row.destination_service = Some(known.destination_service);
        row.size = Some(known.payload);
        row.bundle_bytes = Some(known.size);
        row.priority = Some(priority_name(known.priority).into());
        row
    }

    fn segment(&self, mut row: EventRow, segment: &LtpSegmentEvent) -> EventRow {
        row.link = Some(self.link(segment.link));
        row.engine = Some(segment.engine);
        row.session = Some(segment.session);
        row.segment = Some(u64::from(segment.kind));
        row.offset = Some(segment.offset);
        row.size = Some(segment.length);
        row.checkpoint = (segment.checkpoint != 0).then_some(segment.checkpoint);
        row.report = (segment.report != 0).then_some(segment.report);
        row.sent = Some(segment.sent);
        row.resend = Some(segment.resend);
        row
    }
}

/// Name of a priority in tables.
pub fn priority_name(priority: Priority) -> &'static str {
    match priority {
        Priority::Bulk => "bulk",
        Priority::Normal => "normal",
        Priority::Expedited => "expedited",
    }
}

/// Name of a reason in tables.
pub fn reason_name(reason: DeleteReason) -> &'static str {
    match reason {
        DeleteReason::Done => "done",
        DeleteReason::Expired => "expired",
        DeleteReason::Unidirectional => "unidirectional",
        DeleteReason::Cancelled => "cancelled",
        DeleteReason::DepletedStorage => "depleted_storage",
        DeleteReason::DestinationUnavailable => "destination_unavailable",
        DeleteReason::NoRoute => "no_route",
        DeleteReason::NoTimelyContact => "no_timely_contact",
        DeleteReason::BlockUnintelligible => "block_unintelligible",
        DeleteReason::HopLimit => "hop_limit",
        DeleteReason::TrafficPared => "traffic_pared",
        DeleteReason::BlockUnsupported => "block_unsupported",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::EVENTS;

    fn recorder() -> Recorder {
        let names = Names::new([(NodeId(1), "probe"), (NodeId(2), "ground")]);
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
    fn rows_carry_names_and_the_identity_given_first() {
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
        assert_eq!(r.row(3, &Event::Waiting { bundle }).unwrap().source, None, "forgotten after deletion");
    }

    #[test]
    fn every_event_is_in_the_list_of_the_reference() {
        let (bundle, link, peer) = (BundleHandle(0), LinkId(LinkId::DYNAMIC | 3), NodeId(2));
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
        let events = [
            Event::Created { bundle },
            Event::Received { bundle, link, from: peer },
            Event::Recovered { bundle },
            Event::Accepted { bundle },
            Event::Routed { bundle, link, next_hop: peer },
            Event::Waiting { bundle },
            Event::Transmitting { bundle, link },
            Event::Forwarded { bundle, link },
            Event::ForwardFailed { bundle, link },
            Event::Delivered { bundle },
            Event::Deleted { bundle, reason: DeleteReason::Done },
            Event::Fragmented { bundle, into: bundle },
            Event::Reassembled { bundle },
            Event::Refused { link: None, key: None, reason: farlink_base::Refusal::TooLarge },
            Event::LinkUp { link, peer },
            Event::LinkDown { link },
            Event::Malformed { link: None, offset: 3, reason: "why" },
            Event::LtpSegment(segment),
            Event::LtpSessionEnd { link, engine: 1, session: 2, cancelled: true },
            Event::ClockStepped { step_ms: -3 },
            Event::StoreDamage { file: 1, offset: 2, len: 3 },
            Event::StoreFailed { file: 1 },
        ];
        let mut r = recorder();
        let mut names: Vec<String> = events.iter().map(|e| r.row(0, e).unwrap().event.to_string()).collect();
        let mut listed: Vec<String> = EVENTS.iter().map(|(name, _)| name.to_string()).collect();
        names.sort();
        listed.sort();
        assert_eq!(names, listed);
        let row = r.row(0, &events[17]).unwrap();
        assert_eq!((row.link.as_deref(), row.checkpoint, row.report), (Some("dynamic-3"), Some(1), None));
    }
}
