//! The tests of reports, in one program: it is linked once.

mod common;
mod map;
mod report;
mod run;
