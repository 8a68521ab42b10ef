//! The tests of orbits, in one program: it is linked once.

mod dense;
mod files;
mod published;
mod support;
