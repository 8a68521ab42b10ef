//! The tests of campaigns, in one program: it is linked once.

mod errors;
mod runs;
mod support;
