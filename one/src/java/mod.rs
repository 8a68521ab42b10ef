//! What of Java's library shows in the reports of The ONE: random numbers, the text of numbers, the
//! order in which hashed collections are walked. Written from the documentation of Java SE and
//! checked against what a Java 17 machine prints.

mod order;
mod random;
mod text;

pub use order::{Bucketed, Keyed, spread, table_order};
pub use random::{Draws, Random, round, string_hash};
pub use text::{double, fixed};
