//! Testbed: isolated hosts on this machine, joined by emulated space links, with real node processes and real
//! applications. The crate does not link Farlink's node: it starts the node as a program, like any other
//! implementation, and reads the node's actions from its event file. It parses protocols only as far as reports need.
//! Read [`emulator::Emulator`] and [`supervisor`] first.

#![forbid(unsafe_code)]

pub mod attached;
pub mod cable;
pub mod check;
pub mod container;
pub mod doctor;
pub mod driver;
pub mod drivers;
pub mod emulate;
pub mod emulator;
pub mod gate;
pub mod hybla;
pub mod probes;
pub mod remote;
pub mod run;
pub mod supervisor;
