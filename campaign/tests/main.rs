//! Tests of campaigns, linked as one program.

mod errors;
mod runs;
mod shapes;
mod support;
