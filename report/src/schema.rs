//! Tables of a run. One definition yields the Rust rows, the Parquet columns and `docs/reference/run.md`; to add a
//! column, add a field with its unit and a one-line meaning.

use crate::buffer::Buffer;
use crate::column::{CellValue, ColumnField, ColumnKind, Text};
use farlink_link::{DropReason, Statistics};

/// Schema of one column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Column name in the file.
    pub name: &'static str,
    /// Type of the values.
    pub kind: ColumnKind,
    /// Whether values may be absent.
    pub optional: bool,
    /// Unit; empty for names, counts and flags.
    pub unit: &'static str,
    /// Meaning, as shown in the reference.
    pub help: &'static str,
}

/// Schema of one table.
#[derive(Clone, Copy, Debug)]
pub struct TableSchema {
    /// Table name; the file is `<name>.parquet`.
    pub name: &'static str,
    /// Content of a row, as shown in the reference.
    pub help: &'static str,
    /// Columns in file order.
    pub columns: &'static [Column],
}

/// A row of one of the tables.
pub trait TableRow: Sized {
    /// Schema of the row's table.
    const SCHEMA: TableSchema;
    /// Appends the row's values to the columns, in schema order.
    fn put(&self, columns: &mut [Buffer]);
    /// Builds a row from cells in schema order; `None` when a required value is absent.
    fn from_cells(cells: &mut dyn Iterator<Item = CellValue>) -> Option<Self>;
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
        impl TableRow for $row {
            const SCHEMA: TableSchema = TableSchema {
                name: $table,
                help: $table_help,
                columns: &[$( Column {
                    name: stringify!($name),
                    kind: <$type as ColumnField>::KIND,
                    optional: <$type as ColumnField>::OPTIONAL,
                    unit: $unit,
                    help: $help,
                }, )*],
            };
            fn put(&self, columns: &mut [Buffer]) {
                let mut columns = columns.iter_mut();
                $( if let Some(column) = columns.next() {
                    ColumnField::put(Some(&self.$name), column);
                } )*
            }
            fn from_cells(cells: &mut dyn Iterator<Item = CellValue>) -> Option<Self> {
                Some($row { $( $name: <$type as ColumnField>::from_cell(&cells.next()?)?, )* })
            }
        }
    };
}

table! {
    /// Events at all nodes, in the order in which each node reported them.
    EventRow in "events" {
        /// Time of the event, from the start of the run.
        time_ns: u64, "ns";
        /// Node at which it happened.
        node: Text, "";
        /// Name of the event; see the list of events.
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
        /// Bundle: payload length. LTP segment: length of the data, or span of the report.
        size: Option<u64>, "B";
        /// Bundle: encoded length of all blocks at this node.
        bundle_bytes: Option<u64>, "B";
        /// Bundle: class of service: bulk, normal or expedited.
        priority: Option<Text>, "";
        /// Link concerned, by name.
        link: Option<Text>, "";
        /// Neighbour it came from or goes to.
        peer: Option<Text>, "";
        /// Reason, or other facts about the event in words.
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
        /// LTP segment: true if this node sent it, false if it received it.
        sent: Option<bool>, "";
        /// LTP segment: true if a timer, not a report, caused the retransmission.
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
        /// Sequence number of the creation timestamp.
        sequence: u64, "";
        /// Destination node.
        destination: Text, "";
        /// Destination service number, or a hash of its demux.
        destination_service: u64, "";
        /// Payload length.
        payload: u64, "B";
        /// Encoded length of the whole bundle at its source.
        size: u64, "B";
        /// Class of service: bulk, normal or expedited.
        priority: Text, "";
        /// Time at which the application handed it over, from the start of the run.
        created_ns: u64, "ns";
        /// Time at which the receiving application first took it; absent if it never did.
        delivered_ns: Option<u64>, "ns";
        /// Latency, from creation to first delivery.
        latency_ns: Option<u64>, "ns";
        /// Nodes that received it on the way, the destination included, over all copies; a fragmented copy counts by its first fragment.
        hops: u64, "";
        /// Transmissions: times it was handed to a convergence layer, failed attempts included.
        transmissions: u64, "";
        /// Deliveries to an application; more than 1 means duplicates.
        deliveries: u64, "";
        /// Reason of its deletion if it was deleted undelivered and a node reported it.
        deleted: Option<Text>, "";
        /// Traffic flow of the scenario it belongs to; replies to pings belong to the flow of the pings.
        traffic: Option<Text>, "";
    }
}

table! {
    /// Metrics over time; the metrics are listed below. While a value stays constant, samples between the first and the last may be left out: a line through the samples written is the line through all.
    SampleRow in "samples" {
        /// Time of the sample, from the start of the run.
        time_ns: u64, "ns";
        /// Node measured; for links, the sending node.
        node: Option<Text>, "";
        /// Link measured; absent for metrics of nodes.
        link: Option<Text>, "";
        /// Name of the metric.
        metric: Text, "";
        /// Value in the unit of the metric.
        value: f64, "";
        /// Phase of the scenario at that time; absent outside of phases.
        phase: Option<Text>, "";
    }
}

table! {
    /// Totals of each direction of each link. Packets are IP packets on the wire; byte counts include IP headers and the link's overhead.
    LinkRow in "links" {
        /// Name of the link.
        link: Text, "";
        /// Sending node.
        from_node: Text, "";
        /// Receiving node.
        to_node: Text, "";
        /// Packets offered to the link by its sender.
        sent_packets: u64, "";
        /// Bytes of the packets offered to the link.
        sent_bytes: u64, "B";
        /// Packets that arrived; a duplicated packet counts once.
        delivered_packets: u64, "";
        /// Bytes of the packets that arrived.
        delivered_bytes: u64, "B";
        /// Packets lost because the link was down.
        dropped_down: u64, "";
        /// Packets lost because the contact ended during their transmission.
        dropped_window_end: u64, "";
        /// Packets lost because the queue was full.
        dropped_queue_full: u64, "";
        /// Packets lost to random loss.
        dropped_loss: u64, "";
        /// Packets lost to bit errors.
        dropped_bit_error: u64, "";
        /// Bytes of all lost packets.
        dropped_bytes: u64, "B";
        /// Packets that arrived twice because the link duplicated them.
        duplicated: u64, "";
        /// Packets overtaken by later ones.
        reordered: u64, "";
        /// Packets that arrived with a flipped bit.
        corrupted: u64, "";
        /// Peak of the transmission queue.
        queue_peak_bytes: u64, "B";
        /// Time spent transmitting.
        busy_ns: u64, "ns";
        /// Time during which the contact plan allowed transmission, until the end of the run.
        up_ns: u64, "ns";
    }
}

table! {
    /// Resources that each process used over the whole run, and, where the scenario has phases, those of each role in each phase.
    ProcessRow in "processes" {
        /// Node of the process; absent for the emulator and the supervisor.
        node: Option<Text>, "";
        /// Name of the process, such as node, sender or emulator; of all processes of a role, that of the role.
        process: Text, "";
        /// CPU time in user mode.
        cpu_user_s: f64, "s";
        /// CPU time in the kernel.
        cpu_system_s: f64, "s";
        /// Peak resident memory.
        rss_peak_bytes: u64, "B";
        /// Source of the figures: cgroup, proc or self.
        source: Text, "";
        /// Role: implementation, application or emulator.
        role: Option<Text>, "";
        /// Phase in which a role used them; absent for the whole run.
        phase: Option<Text>, "";
    }
}

table! {
    /// Movements of nodes that have positions, in straight pieces of constant velocity: the piece that holds a moment gives the node's position then. Only simulations write it.
    LegRow in "legs" {
        /// Moving node.
        node: Text, "";
        /// Start of the piece, from the start of the run.
        start_s: f64, "s";
        /// End of the piece; the next one begins at that time and position.
        end_s: f64, "s";
        /// Position at the start: metres east of the origin.
        x: f64, "m";
        /// Position at the start: metres north of the origin.
        y: f64, "m";
        /// Velocity towards the east.
        velocity_x: f64, "m/s";
        /// Velocity towards the north.
        velocity_y: f64, "m/s";
    }
}

table! {
    /// Intervals during which two nodes were in radio range of each other. Only simulations write it.
    MeetingRow in "meetings" {
        /// Radio by which they were in range.
        radio: Text, "";
        /// First node of the pair.
        node: Text, "";
        /// Second node of the pair.
        peer: Text, "";
        /// Start of the interval, from the start of the run.
        start_ns: u64, "ns";
        /// End of the interval; the end of the run if they were still in range.
        end_ns: u64, "ns";
    }
}

impl LegRow {
    /// Position of the node at a time within the leg, in metres east and north.
    pub fn at(&self, time_s: f64) -> (f64, f64) {
        let since = time_s - self.start_s;
        (self.x + self.velocity_x * since, self.y + self.velocity_y * since)
    }
}

impl LinkRow {
    /// Creates the row of one direction from the link's counters; [`crate::RunWriter`] fills in `up_ns` at the end.
    pub fn new(link: &str, from: &str, to: &str, counted: &Statistics) -> LinkRow {
        LinkRow {
            link: link.into(),
            from_node: from.into(),
            to_node: to.into(),
            // The link model counts packets as offered, whatever became of them afterwards.
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
    /// Sum of the packets lost for any reason.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped_down
            + self.dropped_window_end
            + self.dropped_queue_full
            + self.dropped_loss
            + self.dropped_bit_error
    }
}

impl EventRow {
    /// Creates an event with only time, node and name.
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

/// All tables, in the order of the reference.
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
pub struct SampleMetric {
    /// Name, as in the column `metric`.
    pub name: &'static str,
    /// Unit of the samples.
    pub unit: &'static str,
    /// Meaning, as shown in the reference.
    pub help: &'static str,
}

/// Metric of a node: size of its stored bundles, in bytes.
pub const STORED_BYTES: &str = "stored_bytes";
/// Metric of a node: number of its stored bundles.
pub const STORED_BUNDLES: &str = "stored_bundles";
/// Metric of a link and its sending node: bytes transmitted since the start.
pub const LINK_SENT_BYTES: &str = "link_sent_bytes";
/// Metric of a link and its sending node: bytes waiting for transmission.
pub const LINK_QUEUE_BYTES: &str = "link_queue_bytes";
/// Metric of a node: CPU time of the implementation since its start, in seconds.
pub const CPU_S: &str = "cpu_s";
/// Metric of a node: all memory of the implementation, in bytes.
pub const RSS_BYTES: &str = "rss_bytes";
/// Metrics of a node's implementation: anonymous memory, shared memory, page cache.
pub const MEMORY_BYTES: [&str; 3] = ["anonymous_bytes", "shared_bytes", "cache_bytes"];
/// Metrics of a node's applications: CPU time, anonymous memory, shared memory, page cache.
pub const APPLICATION: [&str; 4] =
    ["application_cpu_s", "application_anonymous_bytes", "application_shared_bytes", "application_cache_bytes"];
/// Metrics of the emulator: CPU time, memory.
pub const EMULATOR: [&str; 2] = ["emulator_cpu_s", "emulator_bytes"];
/// Metrics of the TCP connections of a node over a link: round trip, window, segments sent again, rate of delivery.
pub const TCP: [&str; 4] = ["tcp_round_trip_s", "tcp_window_bytes", "tcp_retransmitted", "tcp_delivery_bit_s"];
/// Metric of a node: bytes of the files of its store.
pub const STORE_FILES_BYTES: &str = "store_files_bytes";

/// Metric of a node whose application pings: time from the request to its answer, in seconds.
pub const ROUND_TRIP_S: &str = "round_trip_s";

/// Metrics of a relay and the link over which a bundle left: times from the bundle's last byte in to its first byte out,
/// and to its last byte out.
pub const RETENTION: [&str; 2] = ["retention_first_out_s", "retention_last_out_s"];

/// Metrics of a relay, parts of the time for which it kept a bundle: parsing it, and making the bundle that it sends.
pub const RETENTION_PARTS: [&str; 2] = ["retention_parse_s", "retention_make_s"];

/// All metrics of the samples table.
pub const METRICS: &[SampleMetric] = &[
    SampleMetric { name: STORED_BYTES, unit: "B", help: "Bundles kept at the node, in bytes as encoded." },
    SampleMetric { name: STORED_BUNDLES, unit: "", help: "Bundles kept at the node." },
    SampleMetric {
        name: LINK_SENT_BYTES,
        unit: "B",
        help: "Bytes put on the link by the node since the start, headers and overhead included.",
    },
    SampleMetric {
        name: LINK_QUEUE_BYTES,
        unit: "B",
        help: "Bytes waiting for transmission over the link at the node.",
    },
    SampleMetric { name: CPU_S, unit: "s", help: "CPU time of the node's implementation since its start." },
    SampleMetric { name: RSS_BYTES, unit: "B", help: "Memory of the implementation: the sum of the next three." },
    SampleMetric { name: MEMORY_BYTES[0], unit: "B", help: "Anonymous memory of the implementation: heaps, stacks." },
    SampleMetric { name: MEMORY_BYTES[1], unit: "B", help: "Shared memory of the implementation." },
    SampleMetric {
        name: MEMORY_BYTES[2],
        unit: "B",
        help: "Page cache of the implementation; mapped files where /proc counts.",
    },
    SampleMetric { name: APPLICATION[0], unit: "s", help: "CPU time of the node's applications since their start." },
    SampleMetric { name: APPLICATION[1], unit: "B", help: "Anonymous memory of the node's applications." },
    SampleMetric { name: APPLICATION[2], unit: "B", help: "Shared memory of the node's applications." },
    SampleMetric {
        name: APPLICATION[3],
        unit: "B",
        help: "Page cache of the node's applications; mapped files where /proc counts.",
    },
    SampleMetric { name: EMULATOR[0], unit: "s", help: "CPU time of the testbed's link emulator." },
    SampleMetric { name: EMULATOR[1], unit: "B", help: "Resident memory of the emulator." },
    SampleMetric {
        name: TCP[0],
        unit: "s",
        help: "Smoothed round trip of the node's TCP connection over the link; of several, of the one that carried most.",
    },
    SampleMetric { name: TCP[1], unit: "B", help: "Congestion windows of the node's TCP connections over the link." },
    SampleMetric { name: TCP[2], unit: "", help: "Segments that its connections, those open now, sent again." },
    SampleMetric { name: TCP[3], unit: "bit/s", help: "Rate at which its connections delivered data lately." },
    SampleMetric {
        name: STORE_FILES_BYTES,
        unit: "B",
        help: "Files of the node's store, where events do not tell it.",
    },
    SampleMetric {
        name: RETENTION[0],
        unit: "s",
        help: "In retention phases, a sample for each bundle when it has arrived at a relay: time from its last byte in to its first byte out over the link, zero-work relay not subtracted.",
    },
    SampleMetric { name: RETENTION[1], unit: "s", help: "The same to its last byte out." },
    SampleMetric {
        name: RETENTION_PARTS[0],
        unit: "s",
        help: "In retention phases, a sample for each bundle at a relay whose parsing is probed: time for which the relay parsed it.",
    },
    SampleMetric { name: RETENTION_PARTS[1], unit: "s", help: "The same for making the bundle that the relay sends." },
    SampleMetric {
        name: ROUND_TRIP_S,
        unit: "s",
        help: "A sample for each answered ping when the answer comes, by the stamps of the application that pings: time since the request.",
    },
];

/// Lists the values of the column `event` with their meaning; `seen` is left out because it only introduces a bundle's
/// number and yields no row.
pub fn events() -> impl Iterator<Item = &'static farlink_events::EventInfo> {
    farlink_events::EVENTS.iter().filter(|event| event.name != "seen")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_reads_back_and_requires_values() {
        let folder = tempfile::tempdir().unwrap();
        let mut row = EventRow::new(7, "a".into(), "created");
        // All 64 bits set: the cast to the signed column must keep them.
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
        // The first column, the time, is required.
        assert_eq!(EventRow::from_cells(&mut [CellValue::Integer(None)].into_iter()), None);
    }

    #[test]
    fn every_column_has_meaning_and_unit() {
        for column in TABLES.iter().flat_map(|t| t.columns) {
            assert!(column.help.trim().ends_with('.'), "{}", column.name);
            // Where the name ends with a unit, the unit of the column must be the same.
            for (suffix, unit) in [("_ns", "ns"), ("_ms", "ms"), ("_s", "s"), ("_bytes", "B")] {
                if column.name.ends_with(suffix) {
                    assert_eq!(column.unit, unit, "{}", column.name);
                }
            }
        }
    }
}
