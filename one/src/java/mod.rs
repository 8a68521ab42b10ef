//! Java library behaviour visible in The ONE's reports: random numbers, number formatting, and iteration order of
//! hashed collections. Written from the documentation of Java SE and checked against the output of Java 17.

mod order;
mod random;
mod text;

pub use order::{Bucketed, Keyed, spread, table_order};
pub use random::{Draws, Random, round, string_hash};
pub use text::{double, fixed};
