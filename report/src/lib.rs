//! Runs as directories of typed tables, their statistics, and the HTML report that people read.
//!
//! It starts nothing and measures nothing; every world (simulator, testbed) writes the same schema
//! through it and never learns what the others wrote. Read [`RunWriter`] and [`schema`] first.
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
mod page;
mod recorder;
mod run;
pub mod schema;
pub mod sheet;
mod statistics;
mod table;
mod text;

pub use column::{Cell, Kind, Text};
pub use compare::{Comparison, Metric, RunLabel};
pub use custody::CustodyUse;
pub use docs::reference;
pub use expect::Missed;
pub use format::Quantity;
pub use manifest::{
    Accounting, ContactFacts, DirectionFacts, Expected, FileCheck, Host, Lateness, LinkFacts, Manifest, NodeFacts,
    Pressure, Topology, TrafficFacts, UpTimes, Validity, World,
};
pub use page::plot;
pub use page::{escape, html, is_report, shell};
pub use recorder::{Names, Recorder};
pub use run::{RunReader, RunWriter, free_for_run};
pub use schema::{BundleRow, EventRow, LegRow, LinkRow, MeetingRow, ProcessRow, SampleRow};
pub use statistics::{FlowUse, Latency, LinkUse, Statistics, percentile};
