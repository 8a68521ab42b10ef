//! The tables of a run: one definition gives the Rust rows, the Parquet columns and
//! `docs/reference/run.md`. To add a column, add a field with its one-line meaning and unit.

use crate::buffer::Buffer;
use crate::column::{Cell, Field, Kind, Text};
use farlink_link::{DropReason, Statistics};

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Whether it may be absent.
    pub optional: bool,
    /// Unit; empty for names, counts and flags.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
}

/// One table.
#[derive(Clone, Copy, Debug)]
pub struct TableSchema {
    /// Name; the file is `<name>.parquet`.
    pub name: &'static str,
    /// What its rows are.
    pub help: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
}

/// A row of one of the tables.
pub trait Row: Sized {
    /// Its table.
    const SCHEMA: TableSchema;
    /// Appends its values to the columns, in their order.
    fn put(&self, columns: &mut [Buffer]);
    /// From cells in the order of the columns; `None` when one is missing.
    fn from_cells(cells: &mut dyn Iterator<Item = Cell>) -> Option<Self>;
}

macro_rules! table {
    (
        #[doc = $table_help:literal]
        $row:ident in $table:literal {
            $( #[doc = $help:literal] $name:ident: $type:ty, $unit:literal; )*
        }
    ) => {
        #[doc = $table_help]
        #[derive(Clone, PartialEq, Debug)]
        pub struct $row {
            $( #[doc = $help] pub $name: $type, )*
        }
        impl Row for $row {
            const SCHEMA: TableSchema = TableSchema {
                name: $table,
                help: $table_help,
                columns: &[$( Column {
                    name: stringify!($name),
                    kind: <$type as Field>::KIND,
                    optional: <$type as Field>::OPTIONAL,
                    unit: $unit,
                    help: $help,
                }, )*],
            };
            fn put(&self, columns: &mut [Buffer]) {
                let mut columns = columns.iter_mut();
                $( if let Some(column) = columns.next() {
                    Field::put(Some(&self.$name), column);
                } )*
            }
            fn from_cells(cells: &mut dyn Iterator<Item = Cell>) -> Option<Self> {
                Some($row { $( $name: <$type as Field>::from_cell(&cells.next()?)?, )* })
            }
        }
    };
}

table! {
    /// What happened at each node, in the order in which each node said it.
    EventRow in "events" {
        /// When, from the start of the run.
        time_ns: u64, "ns";
        /// At which node.
        node: Text, "";
        /// What happened; see the list of events.
        event: Text, "";
        /// Bundle: source node.
        source: Option<Text>, "";
        /// Bundle: service number of the source, or a hash of its demux.
        service: Option<u64>, "";
        /// Bundle: creation time, milliseconds since 2000-01-01 UTC.
        creation_ms: Option<u64>, "ms";
        /// Bundle: sequence number.
        sequence: Option<u64>, "";
        /// Bundle: offset of the fragment; absent for whole bundles.
        fragment_offset: Option<u64>, "B";
        /// Bundle: destination node.
        destination: Option<Text>, "";
        /// Bundle: destination service number, or a hash of its demux.
        destination_service: Option<u64>, "";
        /// Bundle: payload. LTP segment: length of the data, or span of the report.
        size: Option<u64>, "B";
        /// Bundle: the whole of it, as encoded here.
        bundle_bytes: Option<u64>, "B";
        /// Bundle: class of service: bulk, normal or expedited.
        priority: Option<Text>, "";
        /// Over which link.
        link: Option<Text>, "";
        /// From or to which neighbour.
        peer: Option<Text>, "";
        /// Why; for other facts about the event in words.
        reason: Option<Text>, "";
        /// LTP: originating engine of the session.
        engine: Option<u64>, "";
        /// LTP: session number.
        session: Option<u64>, "";
        /// LTP segment: type, 0 to 15 (RFC 5326 3.1).
        segment: Option<u64>, "";
        /// LTP segment: offset in the block, or lower bound of the report.
        offset: Option<u64>, "B";
        /// LTP segment: checkpoint serial number.
        checkpoint: Option<u64>, "";
        /// LTP segment: report serial number.
        report: Option<u64>, "";
        /// LTP segment: whether this node sent it.
        sent: Option<bool>, "";
        /// LTP segment: whether a timer caused it to be sent again.
        resend: Option<bool>, "";
    }
}

table! {
    /// One row for each bundle an application created, end to end; fragments count for their bundle.
    BundleRow in "bundles" {
        /// Source node.
        source: Text, "";
        /// Service number of the source, or a hash of its demux.
        service: u64, "";
        /// Creation time, milliseconds since 2000-01-01 UTC.
        creation_ms: u64, "ms";
        /// Sequence number.
        sequence: u64, "";
        /// Destination node.
        destination: Text, "";
        /// Destination service number, or a hash of its demux.
        destination_service: u64, "";
        /// Payload.
        payload: u64, "B";
        /// Whole bundle as first encoded.
        size: u64, "B";
        /// Class of service: bulk, normal or expedited.
        priority: Text, "";
        /// When the application handed it over, from the start of the run.
        created_ns: u64, "ns";
        /// When the receiving application took it first; absent if it never did.
        delivered_ns: Option<u64>, "ns";
        /// From created to delivered.
        latency_ns: Option<u64>, "ns";
        /// Nodes that received it on the way, the destination included; over all copies, of one in pieces by the first.
        hops: u64, "";
        /// Times it was handed to a convergence layer, failed attempts included.
        transmissions: u64, "";
        /// Times an application took it; more than 1 means it was delivered again.
        deliveries: u64, "";
        /// Why it was deleted undelivered, where a node said so.
        deleted: Option<Text>, "";
        /// Which traffic of the scenario it belongs to; answers to pings belong to the pings'.
        traffic: Option<Text>, "";
    }
}

table! {
    /// Values over time; which metrics there are is listed below. Of a value that stands still, samples between the first and the last may be left out: a line through those written is the line through all.
    SampleRow in "samples" {
        /// When, from the start of the run.
        time_ns: u64, "ns";
        /// Of which node; for links, the sending one.
        node: Option<Text>, "";
        /// Of which link.
        link: Option<Text>, "";
        /// Which metric.
        metric: Text, "";
        /// Value, in the unit of the metric.
        value: f64, "";
    }
}

table! {
    /// Totals of each direction of each link. Packets are IP packets on the wire; bytes hold IP headers and the link's overhead.
    LinkRow in "links" {
        /// Name of the link.
        link: Text, "";
        /// Sending node.
        from_node: Text, "";
        /// Receiving node.
        to_node: Text, "";
        /// Packets offered to the link.
        sent_packets: u64, "";
        /// Their bytes.
        sent_bytes: u64, "B";
        /// Packets that arrived; a duplicated one counts once.
        delivered_packets: u64, "";
        /// Their bytes.
        delivered_bytes: u64, "B";
        /// Packets lost because the link was down.
        dropped_down: u64, "";
        /// Packets lost because the contact ended before they were out.
        dropped_window_end: u64, "";
        /// Packets lost because the queue was full.
        dropped_queue_full: u64, "";
        /// Packets lost at random.
        dropped_loss: u64, "";
        /// Packets lost to bit errors.
        dropped_bit_error: u64, "";
        /// Bytes of all lost packets.
        dropped_bytes: u64, "B";
        /// Packets that arrived twice.
        duplicated: u64, "";
        /// Packets overtaken by others.
        reordered: u64, "";
        /// Packets that arrived with a flipped bit.
        corrupted: u64, "";
        /// Most bytes that waited for transmission.
        queue_peak_bytes: u64, "B";
        /// Time spent transmitting.
        busy_ns: u64, "ns";
        /// Time in which the contact plan let it transmit, until the end of the run.
        up_ns: u64, "ns";
    }
}

table! {
    /// What each process used over the whole run.
    ProcessRow in "processes" {
        /// Of which node; absent for the emulator and the supervisor.
        node: Option<Text>, "";
        /// What it is, such as node, sender or emulator.
        process: Text, "";
        /// CPU time in user mode.
        cpu_user_s: f64, "s";
        /// CPU time in the kernel.
        cpu_system_s: f64, "s";
        /// Most memory resident at once.
        rss_peak_bytes: u64, "B";
        /// Where the numbers come from: cgroup, proc or self.
        source: Text, "";
    }
}

table! {
    /// The ways of nodes that have positions, each in pieces that are straight and of one speed: where a node is at any moment follows from the piece that holds it. Only simulations write it.
    LegRow in "legs" {
        /// Which node.
        node: Text, "";
        /// From when on, from the start of the run.
        start_s: f64, "s";
        /// Until when; the next piece begins then and there.
        end_s: f64, "s";
        /// Where it is at the start: metres east.
        x: f64, "m";
        /// Metres north.
        y: f64, "m";
        /// Its velocity: metres a second eastward.
        velocity_x: f64, "m/s";
        /// Northward.
        velocity_y: f64, "m/s";
    }
}

table! {
    /// When two nodes heard each other by a radio. Only simulations write it.
    MeetingRow in "meetings" {
        /// Which radio.
        radio: Text, "";
        /// One node.
        node: Text, "";
        /// The other.
        peer: Text, "";
        /// From when on, from the start of the run.
        start_ns: u64, "ns";
        /// Until when; the end of the run where they still did.
        end_ns: u64, "ns";
    }
}

impl LegRow {
    /// Where the node is at a time, in metres east and north; the time is one of the leg.
    pub fn at(&self, time_s: f64) -> (f64, f64) {
        let since = time_s - self.start_s;
        (self.x + self.velocity_x * since, self.y + self.velocity_y * since)
    }
}

impl LinkRow {
    /// The counters of one direction; [`crate::RunWriter`] fills in `up_ns` at the end.
    pub fn new(link: &str, from: &str, to: &str, counted: &Statistics) -> LinkRow {
        LinkRow {
            link: link.into(),
            from_node: from.into(),
            to_node: to.into(),
            sent_packets: counted.sent,
            sent_bytes: counted.sent_bytes,
            delivered_packets: counted.delivered,
            delivered_bytes: counted.delivered_bytes,
            dropped_down: counted.dropped_by(DropReason::Down),
            dropped_window_end: counted.dropped_by(DropReason::WindowEnd),
            dropped_queue_full: counted.dropped_by(DropReason::QueueFull),
            dropped_loss: counted.dropped_by(DropReason::Loss),
            dropped_bit_error: counted.dropped_by(DropReason::BitError),
            dropped_bytes: counted.dropped_bytes,
            duplicated: counted.duplicated,
            reordered: counted.reordered,
            corrupted: counted.corrupted,
            queue_peak_bytes: counted.queue_peak,
            busy_ns: u64::try_from(counted.busy.as_nanos()).unwrap_or(u64::MAX),
            up_ns: 0,
        }
    }
    /// Packets lost for any reason.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped_down
            + self.dropped_window_end
            + self.dropped_queue_full
            + self.dropped_loss
            + self.dropped_bit_error
    }
}

impl EventRow {
    /// An event with nothing but time, node and name.
    pub fn new(time_ns: u64, node: Text, event: impl Into<Text>) -> EventRow {
        EventRow {
            time_ns,
            node,
            event: event.into(),
            source: None,
            service: None,
            creation_ms: None,
            sequence: None,
            fragment_offset: None,
            destination: None,
            destination_service: None,
            size: None,
            bundle_bytes: None,
            priority: None,
            link: None,
            peer: None,
            reason: None,
            engine: None,
            session: None,
            segment: None,
            offset: None,
            checkpoint: None,
            report: None,
            sent: None,
            resend: None,
        }
    }
}

/// All tables in the order of the reference.
pub const TABLES: &[TableSchema] = &[
    EventRow::SCHEMA,
    BundleRow::SCHEMA,
    SampleRow::SCHEMA,
    LinkRow::SCHEMA,
    ProcessRow::SCHEMA,
    LegRow::SCHEMA,
    MeetingRow::SCHEMA,
];

/// A metric of the samples table.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name in the column `metric`.
    pub name: &'static str,
    /// Unit of its values.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
}

/// Stored bundles, in bytes: node.
pub const STORED_BYTES: &str = "stored_bytes";
/// Stored bundles: node.
pub const STORED_BUNDLES: &str = "stored_bundles";
/// Bytes put on a link so far: node (sending) and link.
pub const LINK_SENT_BYTES: &str = "link_sent_bytes";
/// Bytes waiting for transmission: node (sending) and link.
pub const LINK_QUEUE_BYTES: &str = "link_queue_bytes";
/// CPU time used so far: node.
pub const CPU_S: &str = "cpu_s";
/// Resident memory: node.
pub const RSS_BYTES: &str = "rss_bytes";

/// Metrics of the samples table.
pub const METRICS: &[Metric] = &[
    Metric { name: STORED_BYTES, unit: "B", help: "Bundles kept at the node, in bytes as encoded." },
    Metric { name: STORED_BUNDLES, unit: "", help: "Bundles kept at the node." },
    Metric {
        name: LINK_SENT_BYTES,
        unit: "B",
        help: "Bytes put on the link by the node since the start, headers and overhead included.",
    },
    Metric { name: LINK_QUEUE_BYTES, unit: "B", help: "Bytes waiting for transmission over the link at the node." },
    Metric { name: CPU_S, unit: "s", help: "CPU time of the node's process since its start." },
    Metric { name: RSS_BYTES, unit: "B", help: "Resident memory of the node's process." },
];

/// What may stand in the column `event`, with its meaning: every event but the one that only numbers
/// a bundle.
pub fn events() -> impl Iterator<Item = &'static farlink_events::EventInfo> {
    farlink_events::EVENTS.iter().filter(|event| event.name != "seen")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_the_file_and_a_value_that_must_be_there_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let mut row = EventRow::new(7, "a".into(), "created");
        row.sequence = Some(u64::MAX);
        row.sent = Some(false);
        let mut writer = crate::table::TableWriter::create(folder.path()).unwrap();
        writer.push(&row).unwrap();
        writer.finish().unwrap();
        let mut read = Vec::new();
        crate::table::read_table::<EventRow>(folder.path(), &mut |row| {
            read.push(row);
            Ok(())
        })
        .unwrap();
        assert_eq!(read, [row]);
        assert_eq!(EventRow::from_cells(&mut [Cell::Integer(None)].into_iter()), None);
    }

    #[test]
    fn every_column_has_a_meaning_and_quantities_have_their_unit_in_the_name_or_beside_it() {
        for column in TABLES.iter().flat_map(|t| t.columns) {
            assert!(column.help.trim().ends_with('.'), "{}", column.name);
            for (suffix, unit) in [("_ns", "ns"), ("_ms", "ms"), ("_s", "s"), ("_bytes", "B")] {
                if column.name.ends_with(suffix) {
                    assert_eq!(column.unit, unit, "{}", column.name);
                }
            }
        }
    }
}
