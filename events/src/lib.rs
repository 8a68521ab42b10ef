//! What an event is called and which fields it has, said once: the node writes JSON lines and log
//! lines by it, the testbed reads the lines back to the same [`farlink_base::Event`], and references
//! are made from it.
//!
//! It opens no file and keeps nothing but the identity of bundles that are still there; rows and
//! tables are `report`'s, which gets events whether they were simulated or read. Read the table in
//! [`schema`], then [`EventNames`].
#![forbid(unsafe_code)]

mod field;
mod names;
mod read;
pub mod schema;
mod words;
mod write;

pub use names::EventNames;
pub use schema::{EVENTS, EventInfo, info, is_event, reference};
pub use words::Word;
