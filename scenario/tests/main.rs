//! The tests of scenarios, in one program: it is linked once.

mod errors;
mod meaning;
mod moving;
mod sky;
