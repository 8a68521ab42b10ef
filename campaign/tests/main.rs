//! Tests of campaigns, linked as one program.

mod errors;
mod runs;
mod support;
