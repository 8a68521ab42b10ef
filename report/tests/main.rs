//! Tests of reports, linked as one program.

mod common;
mod map;
mod report;
mod run;
