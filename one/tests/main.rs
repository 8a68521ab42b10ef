//! Tests of The ONE's world, linked once as one program.

mod logs;
mod reports;
