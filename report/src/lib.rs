//! Runs as directories of typed tables, with their statistics and HTML report.
//!
//! This crate starts nothing and measures nothing. Every world (simulator, testbed) writes the same schema through it,
//! without knowledge of the other worlds. Read [`RunWriter`] and [`schema`] first.
#![forbid(unsafe_code)]

mod buffer;
mod column;
mod compare;
mod custody;
mod docs;
mod expect;
mod flow;
mod format;
mod journey;
mod manifest;
mod missing;
mod nagle;
mod order;
mod page;
mod pcapng;
mod phase;
mod plain_flow;
mod recorder;
mod retention;
mod round_trip;
mod run;
pub mod schema;
mod segments;
pub mod sheet;
mod statistics;
mod table;
mod text;

pub use column::{CellValue, ColumnKind, Text};
pub use compare::{ComparedMetric, Comparison, RunLabel};
pub use custody::CustodyUse;
pub use docs::reference;
pub use expect::Missed;
pub use format::{Quantity, counted};
pub use manifest::{
    Accounting, ContactFacts, DirectionFacts, Expected, FileCheck, Host, Lateness, LinkFacts, MachineLoad, Manifest,
    NodeFacts, RunWorld, Topology, TrafficFacts, UpTimes, Validity, Verdict,
};
pub use missing::{MissingBundles, with_refused};
pub use nagle::{HeldSegments, NagleReport, NagleVerdict, RoundTripClusters, held_in_capture};
pub use page::plot;
pub use page::{distribution, drawing, stack};
pub use page::{escape, html, is_report, shell};
pub use pcapng::{CapturedFrame, FrameSide, PcapngReader};
pub use phase::{BaselineFlow, PhaseFacts, PhaseUse, RoleUse, Spread};
pub use plain_flow::PlainFlow;
pub use recorder::{NodeNames, Recorder};
pub use retention::{BundleTimes, RetentionFacts, RetentionTimes, ZeroWorkTimes};
pub use round_trip::RoundTrip;
pub use run::{RunReader, RunWriter, free_for_run};
pub use schema::{BundleRow, EventRow, LegRow, LinkRow, MeetingRow, ProcessRow, SampleRow};
pub use segments::SegmentSeen;
pub use statistics::{FlowUse, Latency, LinkUse, Statistics, percentile};
