//! Aggregation of events into the bundles table. Events may come in any order, because each node of a testbed reports
//! separately.

use crate::column::Text;
use crate::flow::Flows;
use crate::schema::{BundleRow, EventRow};
use farlink_base::{Map, map};

/// Bundle identity without fragment: creation time, source, service, sequence number.
type JourneyKey = (u64, Text, u64, u64);

/// State of one bundle, aggregated from the events seen so far.
#[derive(Default)]
struct Journey {
    destination: Option<(Text, u64)>,
    payload: u64,
    size: u64,
    priority: Option<Text>,
    created_ns: Option<u64>,
    delivered_ns: Option<u64>,
    hops: u64,
    transmissions: u64,
    deliveries: u64,
    deleted: Option<Text>,
}

/// Aggregates events into one row per bundle. Memory: about 200 bytes for each bundle created.
pub struct Journeys {
    known: Map<JourneyKey, Journey>,
}
impl Default for Journeys {
    fn default() -> Self {
        Journeys { known: map(0) }
    }
}

impl Journeys {
    /// Updates the state of the event's bundle.
    pub fn observe(&mut self, row: &EventRow) {
        let (Some(source), Some(service)) = (&row.source, row.service) else { return };
        let (Some(creation), Some(sequence)) = (row.creation_ms, row.sequence) else { return };
        // Other events would create entries for bundles that the table never shows.
        let interesting = matches!(&*row.event, "created" | "received" | "transmitting" | "delivered" | "deleted");
        if !interesting {
            return;
        }
        let journey = self.known.entry((creation, source.clone(), service, sequence)).or_default();
        match &*row.event {
            "created" => {
                journey.created_ns = Some(row.time_ns);
                journey.payload = row.size.unwrap_or(0);
                journey.size = row.bundle_bytes.unwrap_or(journey.payload);
                journey.priority = row.priority.clone();
                journey.destination = row.destination.clone().zip(row.destination_service);
            }
            // A copy that arrives in fragments counts once, by its first fragment.
            "received" => journey.hops += u64::from(row.fragment_offset.is_none_or(|offset| offset == 0)),
            "transmitting" => journey.transmissions += 1,
            "delivered" => {
                journey.deliveries += 1;
                // Nodes report in any order, so the earliest delivery need not come first.
                let first = journey.delivered_ns.map_or(row.time_ns, |before| before.min(row.time_ns));
                journey.delivered_ns = Some(first);
            }
            // `done` is the reason when a node needs its copy no longer; with any other reason the copy is lost.
            _ => match row.reason.as_deref() {
                None | Some("done") => {}
                Some(_) => journey.deleted = row.reason.clone(),
            },
        }
    }

    /// Converts the state to rows: every bundle that an application created, in order of creation.
    pub fn rows(self, flows: &Flows) -> Vec<BundleRow> {
        let row = |((creation_ms, source, service, sequence), j): (JourneyKey, Journey)| {
            // Administrative records and bundles from outside the scenario have no `created` event
            // and get no row.
            let created_ns = j.created_ns?;
            let (destination, destination_service) = j.destination?;
            let traffic = flows.find((&source, service), (&destination, destination_service));
            Some(BundleRow {
                traffic,
                source,
                service,
                creation_ms,
                sequence,
                destination,
                destination_service,
                payload: j.payload,
                size: j.size,
                priority: j.priority.unwrap_or_else(|| "normal".into()),
                created_ns,
                delivered_ns: j.delivered_ns,
                latency_ns: j.delivered_ns.map(|delivered| delivered.saturating_sub(created_ns)),
                hops: j.hops,
                transmissions: j.transmissions,
                deliveries: j.deliveries,
                // A bundle delivered once is not lost, even if some copies were dropped.
                deleted: if j.delivered_ns.is_some() { None } else { j.deleted },
            })
        };
        let mut rows: Vec<BundleRow> = self.known.into_iter().filter_map(row).collect();
        // The map has no useful order; a total order makes the file reproducible.
        rows.sort_unstable_by(|a, b| {
            let place = |row: &BundleRow| (row.created_ns, row.creation_ms);
            let identity = |row: &BundleRow| (row.service, row.sequence);
            place(a).cmp(&place(b)).then_with(|| a.source.cmp(&b.source)).then_with(|| identity(a).cmp(&identity(b)))
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: u64, node: &str, name: &str, sequence: u64) -> EventRow {
        let mut row = EventRow::new(time_ns, node.into(), name);
        row.source = Some("a".into());
        row.service = Some(1);
        row.creation_ms = Some(10);
        row.sequence = Some(sequence);
        if name == "created" {
            row.destination = Some("c".into());
            row.destination_service = Some(1000);
            (row.size, row.bundle_bytes) = (Some(100), Some(150));
            row.priority = Some("bulk".into());
        }
        row
    }

    #[test]
    fn journeys_accept_events_in_any_order() {
        let mut journeys = Journeys::default();
        let piece = |time, node, offset| EventRow { fragment_offset: Some(offset), ..event(time, node, "received", 0) };
        let mut lost = event(9, "b", "deleted", 1);
        lost.reason = Some("expired".into());
        let mut done = event(45, "b", "deleted", 0);
        done.reason = Some("done".into());
        for row in [
            event(50, "c", "delivered", 0),
            event(60, "c", "delivered", 0),
            event(49, "c", "received", 0),
            event(20, "b", "received", 0),
            event(21, "b", "transmitting", 0),
            event(11, "a", "transmitting", 0),
            event(10, "a", "created", 0),
            event(12, "a", "created", 1),
            event(15, "a", "routed", 1),
            lost,
            done,
            piece(22, "d", 0),
            piece(23, "d", 60),
            event(1, "x", "received", 77), // never created here: no row
            EventRow::new(1, "a".into(), "link_up"),
        ] {
            journeys.observe(&row);
        }
        let rows = journeys.rows(&Flows::default());
        assert_eq!(rows.len(), 2);
        let first = &rows[0];
        assert_eq!((first.created_ns, first.delivered_ns, first.latency_ns), (10, Some(50), Some(40)));
        let counted = (first.hops, first.transmissions, first.deliveries, first.deleted.clone());
        assert_eq!(counted, (3, 2, 2, None), "b, c, and d in two pieces");
        assert_eq!((first.payload, first.size), (100, 150));
        assert_eq!((rows[1].delivered_ns, rows[1].deleted.as_deref()), (None, Some("expired")));
    }
}
