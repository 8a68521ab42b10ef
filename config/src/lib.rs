//! Reads TOML files by tables of keys: typed values with their units, and every mistake at once, each
//! with its line, what was expected and the nearest key that exists.
//!
//! It knows no key itself but those that node files and scenarios share: of [`node`], [`security`], [`custody`],
//! [`reports`], [`tunnel`] and [`quota`]. Both bring theirs, and their references are made from the same tables ([`docs`]). It opens no file but with [`read_text`]. Read [`Key`] and [`Reader`] first.
#![forbid(unsafe_code)]

pub mod custody;
pub mod docs;
mod errors;
mod input;
mod keys;
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
pub use reader::{Reader, Tables, Value};
