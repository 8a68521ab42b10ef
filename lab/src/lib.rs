//! The testbed: isolated hosts on this machine, joined by emulated space links, with real node
//! processes and real applications in them.
//! It never links a node: ours is started as a program, like any other implementation, and what it
//! did is read from its event files; it knows no protocol beyond what reports need.
//! Read [`emulator::Emulator`] and [`supervisor`] first.

#![forbid(unsafe_code)]

pub mod cable;
pub mod doctor;
pub mod driver;
pub mod drivers;
pub mod emulate;
pub mod emulator;
pub mod run;
pub mod supervisor;
