//! Reader of TOML files by declared keys: converts values with units to types, and reports all mistakes at once, each
//! with its line, the expected value and the most similar key.
//!
//! The crate declares only the keys that node files and scenarios share: those of [`node`], [`security`], [`custody`],
//! [`reports`], [`tunnel`], [`quota`] and [`machine`]. Reference pages are generated from the same declarations
//! ([`docs`]). Only [`read_text`] opens files. Read [`Key`] and [`Reader`] first.
#![forbid(unsafe_code)]

pub mod codes;
pub mod custody;
pub mod docs;
mod errors;
mod input;
mod keys;
pub mod machine;
pub mod node;
pub mod quota;
mod reader;
pub mod reports;
pub mod schema;
pub mod security;
pub mod tunnel;

pub use errors::{Errors, FILE_MAX, nearest, read_text, utf8};
pub use input::{Input, choose, example, positive_rate};
pub use keys::{Fallback, Key, Kind, Section, key, other, setting_keys};
pub use reader::{Reader, SpannedValue, Tables};
