//! Tests of orbits, linked as one program.

mod dense;
mod files;
mod published;
mod support;
