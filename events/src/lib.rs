//! Names and fields of events, defined once: the node writes JSON lines and log lines from them, the testbed reads the
//! lines back into [`farlink_base::Event`], and the reference pages are generated.
//!
//! It opens no file. Of a node it stores only the names of links and the identities of bundles held. Rows and tables
//! are in `report`, which gets events from simulations and files alike. Read the table in [`schema`], then
//! [`EventNames`].
#![forbid(unsafe_code)]

mod field;
mod names;
mod read;
pub mod schema;
mod words;
mod write;

pub use names::{EventNames, node as node_name, source as source_name};
pub use schema::{EVENTS, EventInfo, info, is_event, reference};
pub use words::Word;
