//! The testbed: isolated hosts on this machine, joined by emulated space links, with real node processes and real
//! applications. It links no node: ours is started as a program, like any other implementation, and its actions are
//! read from its event file. It parses no protocol beyond the needs of reports. Read [`emulator::Emulator`] and
//! [`supervisor`] first.

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
pub mod run;
pub mod supervisor;
