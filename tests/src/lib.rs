//! Tests across crates, and their common parts: fuzz targets and the seeds of their corpora.
//!
//! It contains no test of a single crate; those stand beside their code. Read [`fuzz`] to add a
//! fuzz target.

pub mod fuzz;
mod fuzz_ltp;
mod fuzz_reading;
mod fuzz_security;
mod fuzz_v6;
pub mod mend;
pub mod seeds;
mod seeds_ltp;
